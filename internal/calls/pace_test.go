package calls

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/quota"
)

// The pause grows while nothing changes, and is at least what the looks of all agents together allow.
func TestSchedule(t *testing.T) {
	const ms = time.Millisecond
	now := time.Now()
	var s schedule
	if !s.due(now) {
		t.Error("the first look is not due")
	}
	for i, c := range []struct {
		took      time.Duration
		followers int64
		changed   bool
		wrote     bool // after the look
		want      time.Duration
	}{
		{0, 1, true, false, 500 * ms},
		{0, 1, false, false, 750 * ms},
		{0, 1, false, false, 1125 * ms},
		{0, 100, false, false, 1687500 * time.Microsecond},
		{0, 100, false, false, 2 * time.Second},
		{0, 100, false, false, 2 * time.Second},
		{ms, 10, false, false, 2 * time.Second},
		{10 * ms, 100, false, false, 20 * time.Second},
		{10 * ms, 100, true, false, 20 * time.Second},
		{0, 100, false, true, 500 * ms},
		{0, 1, false, false, 750 * ms},
	} {
		s.looked(now, c.took, c.followers, c.changed)
		if c.wrote {
			s.wrote()
		}
		if got := s.next.Sub(now); got != c.want || s.due(now) || !s.due(s.next) {
			t.Errorf("%d: %v, expected %v", i, got, c.want)
		}
		now = s.next
	}
}

// A refusal is reported after some patience, if it lasts, and again if there is another.
func TestRefusal(t *testing.T) {
	const patience = quota.Patience
	var r refusal
	now := time.Now()
	for i, c := range []struct {
		after               time.Duration
		told, refused, want bool
		waits               bool
	}{
		{0, true, false, false, false},
		{0, true, true, false, true},
		{patience - 1, false, true, false, true},
		{1, false, true, true, false},
		{time.Hour, false, true, false, false}, // nothing new
		{0, true, true, false, true},
		{patience, true, false, false, false}, // it was served
		{patience, true, true, false, true},
		{patience / 2, true, true, false, true},
		{patience / 2, true, true, true, false},
	} {
		now = now.Add(c.after)
		if got := r.update(now, c.told, c.refused); got != c.want || r.waits() != c.waits {
			t.Errorf("%d: %v, it waits: %v", i, got, r.waits())
		}
	}
}
