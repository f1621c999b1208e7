package health

import "time"

// idleClock measures how long an incarnation has had no input or output. Runtimes report the last
// activity by the wall clock, which may be set. So the age of a new time is computed once, and then
// the monotonic clock counts, which stands still while the machine is suspended.
type idleClock struct {
	last  time.Time     // the last input or output, as the runtime reports it
	age   time.Duration // the age of last when it was first seen
	seen  time.Time     // when last was first seen
	since time.Time     // idleness counts from then on; zero: from the beginning
}

// update takes the time of the last input or output, and returns how long the incarnation has been
// idle. The current time is given by both clocks: wall has no monotonic reading.
func (c *idleClock) update(last, now, wall time.Time) time.Duration {
	if c.seen.IsZero() || !last.Equal(c.last) {
		age := max(0, wall.Sub(last.Round(0)))
		if !c.seen.IsZero() { // the new activity cannot be older than the one before
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

// excuse makes the time before at not count.
func (c *idleClock) excuse(at time.Time) {
	if at.After(c.since) {
		c.since = at
	}
}
