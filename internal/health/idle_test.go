package health

import (
	"testing"
	"testing/synctest"
	"time"
)

// An idleClock counts from the time that the runtime reports, by a clock that is never set.
func TestIdleClock(t *testing.T) {
	const s = time.Second
	type update struct {
		after time.Duration // since the update before, by the monotonic clock
		last  time.Duration // the last activity by the wall clock, since the beginning
		set   time.Duration // by how much the wall clock has been set
		want  time.Duration
	}
	for _, tt := range []struct {
		name    string
		updates []update
		excused int // the number of updates before an excuse; 0: no excuse
	}{
		{name: "from the last activity", updates: []update{{10 * s, 3 * s, 0, 7 * s}, {5 * s, 3 * s, 0, 12 * s},
			{5 * s, 19 * s, 0, s}}},
		{name: "nothing since before it was looked at", updates: []update{{0, -100 * s, 0, 100 * s},
			{s, -100 * s, 0, 101 * s}}},
		{name: "the clock is set forward", updates: []update{{10 * s, 0, 0, 10 * s}, {10 * s, 0, time.Hour, 20 * s}}},
		{name: "and something happened before that", updates: []update{{10 * s, 0, 0, 10 * s},
			{10 * s, 15 * s, time.Hour, 20 * s}, {s, time.Hour + 20*s, time.Hour, s}}},
		{name: "the clock is set back", updates: []update{{10 * s, 0, 0, 10 * s}, {10 * s, 0, -time.Hour, 20 * s},
			{s, -time.Hour + 15*s, -time.Hour, 6 * s}}},
		{name: "activity in the future", updates: []update{{s, time.Hour, 0, 0}, {s, time.Hour, 0, s}}},
		{name: "an excuse", updates: []update{{0, -100 * s, 0, 100 * s}, {5 * s, -100 * s, 0, 5 * s},
			{7 * s, -100 * s, 0, 12 * s}}, excused: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var c idleClock
				for n, l := range tt.updates {
					if tt.excused > 0 && n == tt.excused {
						c.excuse(time.Now())
						c.excuse(begin) // an earlier excuse has no effect
					}
					time.Sleep(l.after)
					now := time.Now()
					last := begin.Round(0).Add(l.last)
					if got := c.update(last, now, now.Round(0).Add(l.set)); got != l.want {
						t.Errorf("update %d: idle for %v, want %v", n, got, l.want)
					}
				}
			})
		})
	}
}
