package calls

import (
	"time"

	"github.com/coppice-dev/coppice/internal/quota"
)

// The pause between two looks at the files of a session grows from minPause to maxPause while nothing changes.
const (
	minPause = 500 * time.Millisecond
	maxPause = 2 * time.Second
)

// schedule says when the files of a session are looked at.
type schedule struct {
	last, next time.Time
	pause      time.Duration
}

// due reports whether it is time for a look.
func (s *schedule) due(now time.Time) bool { return !now.Before(s.next) }

// looked takes note of a look.
func (s *schedule) looked(now time.Time, changed bool) {
	if s.pause = max(minPause, min(maxPause, s.pause*3/2)); changed {
		s.pause = minPause
	}
	s.last, s.next = now, now.Add(s.pause)
}

// wrote takes note that the agent has written something: its files may have more, too.
func (s *schedule) wrote() {
	s.pause = 0
	s.next = s.last.Add(minPause)
}

// refusal delays the report that an account does not serve a call that goes on: the call may end, and its last words
// say more, or it may be served yet.
type refusal struct{ since time.Time }

// waits reports whether there is something to report.
func (r *refusal) waits() bool { return !r.since.IsZero() }

// update takes note of whether a call is refused, and reports whether that is to be reported now. told says that the
// call has just reported something of it.
func (r *refusal) update(now time.Time, told, refused bool) (due bool) {
	switch {
	case !refused:
		r.since = time.Time{}
	case r.since.IsZero() && told:
		r.since = now
	case !r.since.IsZero() && now.Sub(r.since) >= quota.Patience:
		r.since = time.Time{}
		return true
	}
	return false
}
