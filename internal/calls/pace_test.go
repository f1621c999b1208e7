package calls

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/quota"
)

// The pause grows while nothing changes. After some output the files may have more.
func TestSchedule(t *testing.T) {
	const ms = time.Millisecond
	now := time.Now()
	var s schedule
	if !s.due(now) {
		t.Error("the first look is not due")
	}
	for i, c := range []struct {
		changed bool
		wrote   bool // after the look
		want    time.Duration
	}{
		{true, false, 500 * ms},
		{false, false, 750 * ms},
		{false, false, 1125 * ms},
		{false, false, 1687500 * time.Microsecond},
		{false, false, 2 * time.Second},
		{false, false, 2 * time.Second},
		{false, true, 500 * ms},
		{false, false, 500 * ms},
		{false, false, 750 * ms},
		{true, false, 500 * ms},
	} {
		s.looked(now, c.changed)
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
