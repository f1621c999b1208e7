package daemon

import (
	"testing"
	"testing/synctest"
	"time"
)

// idleness counts from what the runtime tells, and by a clock that nobody sets.
func TestIdleness(t *testing.T) {
	const s = time.Second
	type look struct {
		after time.Duration // the one before, by the monotonic clock
		last  time.Duration // what the runtime tells, by the wall clock, from the beginning
		set   time.Duration // how far the wall clock has been set since
		want  time.Duration
	}
	for _, c := range []struct {
		name    string
		looks   []look
		excused int // how many looks come before an excuse; 0: none
	}{
		{name: "from the last activity", looks: []look{{10 * s, 3 * s, 0, 7 * s}, {5 * s, 3 * s, 0, 12 * s}, {5 * s, 19 * s, 0, s}}},
		{name: "nothing since before it was looked at", looks: []look{{0, -100 * s, 0, 100 * s}, {s, -100 * s, 0, 101 * s}}},
		{name: "the clock is set forward", looks: []look{{10 * s, 0, 0, 10 * s}, {10 * s, 0, time.Hour, 20 * s}}},
		{name: "and something happened before that", looks: []look{{10 * s, 0, 0, 10 * s}, {10 * s, 15 * s, time.Hour, 20 * s}, {s, time.Hour + 20*s, time.Hour, s}}},
		{name: "the clock is set back", looks: []look{{10 * s, 0, 0, 10 * s}, {10 * s, 0, -time.Hour, 20 * s}, {s, -time.Hour + 15*s, -time.Hour, 6 * s}}},
		{name: "activity in the future", looks: []look{{s, time.Hour, 0, 0}, {s, time.Hour, 0, s}}},
		{name: "an excuse", looks: []look{{0, -100 * s, 0, 100 * s}, {5 * s, -100 * s, 0, 5 * s}, {7 * s, -100 * s, 0, 12 * s}}, excused: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var i idleness
				for n, l := range c.looks {
					if c.excused > 0 && n == c.excused {
						i.excuse(time.Now())
						i.excuse(begin) // an earlier one takes nothing back
					}
					time.Sleep(l.after)
					now := time.Now()
					last := begin.Round(0).Add(l.last)
					if got := i.lookAt(last, now, now.Round(0).Add(l.set)); got != l.want {
						t.Errorf("look %d: idle for %v, want %v", n, got, l.want)
					}
				}
			})
		})
	}
}
