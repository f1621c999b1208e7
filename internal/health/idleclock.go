package health

import "time"

// idleClock measures for how long an incarnation has neither read nor written anything. Runtimes
// tell the time of that by the wall clock, which may be set: the age of a new time is computed once,
// and from then on the monotonic clock counts. It stands still while the machine is suspended.
type idleClock struct {
	last  time.Time     // of the last input or output, as the runtime tells it
	age   time.Duration // that last had when it was new
	seen  time.Time     // when that was
	since time.Time     // from then on it counts; zero: from the beginning
}

// update takes the time of the last input or output, and returns how long the incarnation has been
// idle. The current time is given by both clocks: wall has no monotonic reading.
func (c *idleClock) update(last, now, wall time.Time) time.Duration {
	if c.seen.IsZero() || !last.Equal(c.last) {
		age := max(0, wall.Sub(last.Round(0)))
		if !c.seen.IsZero() { // it was there at the last update, or has come since
			age = min(age, c.age+now.Sub(c.seen))
		}
		c.last, c.age, c.seen = last, age, now
	}
	idle := c.age + now.Sub(c.seen)
	if !c.since.IsZero() {
		idle = min(idle, now.Sub(c.since))
	}
	return idle
}

// excuse starts the time again: what was before does not count.
func (c *idleClock) excuse(at time.Time) {
	if at.After(c.since) {
		c.since = at
	}
}
