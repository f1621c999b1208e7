package run

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/supervisor"
)

// summary collects what is worth knowing after a run from its events. Events come from one
// goroutine; lines is called after the last one.
type summary struct {
	crashes map[string]int // by path
	group   string         // supervisor of the last restart, whose siblings may follow
	groups  map[string]int // group restarts, by the path of the supervisor
	peers   map[string]int // siblings restarted with them, by the path of the supervisor
	delays  int
	longest time.Duration
	whose   string // path of the longest delay
	limits  []string
}

func (s *summary) note(e supervisor.Event) {
	if s.crashes == nil {
		s.crashes, s.groups, s.peers = map[string]int{}, map[string]int{}, map[string]int{}
	}
	h := e.Header()
	switch e := e.(type) {
	case supervisor.ChildExited:
		s.ended(h, e.Exit.Err, e.Exit.Clean(), e.Decision)
	case supervisor.ChildStartFailed:
		s.ended(h, e.Err, false, e.Decision)
	case supervisor.ChildStopping:
		if e.Reason == supervisor.ReasonSibling {
			if s.group == h.Supervisor {
				s.groups[h.Supervisor]++
				s.group = ""
			}
			s.peers[h.Supervisor]++
		}
	case supervisor.LimitReached:
		whose := h.Path()
		if e.Limit.Scope == supervisor.ScopeSupervisor {
			whose = h.Supervisor
		}
		s.limits = append(s.limits, fmt.Sprintf("%s (%v)", whose, e.Limit))
	}
}

// ended takes note of an end, unless the child only waits for something outside of it, such as a quota.
func (s *summary) ended(h supervisor.EventHeader, err error, clean bool, d supervisor.Decision) {
	if _, waits := errors.AsType[*supervisor.RetryError](err); waits {
		return
	}
	if !clean {
		s.crashes[h.Path()]++
	}
	if d.Action != supervisor.RestartIt {
		return
	}
	s.group = h.Supervisor
	if d.Delay > 0 {
		s.delays++
		if d.Delay > s.longest {
			s.longest, s.whose = d.Delay, h.Path()
		}
	}
}

// lines returns a line each for group restarts, delays and limits. If there were none, it returns
// one for failures.
func (s *summary) lines() []string {
	var out []string
	if len(s.groups) > 0 {
		var parts []string
		for _, path := range slices.Sorted(maps.Keys(s.groups)) {
			parts = append(parts, fmt.Sprintf("%s %dx (with %s)", path, s.groups[path],
				plaintext.Plural(s.peers[path], "sibling")))
		}
		out = append(out, "group restarts: "+strings.Join(parts, ", "))
	}
	if s.delays > 0 {
		out = append(out, fmt.Sprintf("backoff:        %s delayed, the longest by %s (%s)",
			plaintext.Plural(s.delays, "restart"), timespan.Short(s.longest), s.whose))
	}
	if len(s.limits) > 0 {
		out = append(out, "limits reached: "+strings.Join(s.limits, "; "))
	}
	if len(out) == 0 && len(s.crashes) > 0 {
		out = append(out, "failures: "+counted(s.crashes))
	}
	return out
}

// counted lists paths with their counts, the highest first.
func counted(m map[string]int) string {
	paths := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(m[b]-m[a], strings.Compare(a, b))
	})
	parts := make([]string, len(paths))
	for i, p := range paths {
		parts[i] = fmt.Sprintf("%s %dx", p, m[p])
	}
	return strings.Join(parts, ", ")
}
