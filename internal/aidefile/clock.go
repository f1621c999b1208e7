package aidefile

import "time"

// Clock determines when the schedules of an agent are due. Schedules are in wall clock time,
// so a Clock handles changes of the wall clock:
//
//   - Nothing is due for a time before the Clock was made.
//   - A time that was noticed more than Grace too late, because the machine slept or the
//     clock was set forward, is missed. However many times have passed, at most one is due.
//   - If the clock is set back by less than an hour, nothing is due twice.
type Clock struct {
	schedules []Schedule
	next      []time.Time
	fired     []time.Time // the last time that was due
	seen      time.Time
}

// Grace bounds how late a time may be noticed and still be due.
const Grace = time.Minute

// maxMissed bounds the counting of missed times.
const maxMissed = 10_000

// NewClock returns a Clock that begins now.
func NewClock(now time.Time, schedules []Schedule) *Clock {
	c := &Clock{schedules: schedules, seen: now}
	for _, s := range schedules {
		c.next = append(c.next, s.Next(now))
		c.fired = append(c.fired, time.Time{})
	}
	return c
}

// Due is a schedule whose time has come or was missed.
type Due struct {
	Index int       // of the schedule
	At    time.Time // the last time that has come; if Late, the last that was missed
	// Missed counts the times before At that were missed, up to 10000.
	Missed int
	Late   bool // At is longer ago than Grace
}

// Tick returns what is due now.
func (c *Clock) Tick(now time.Time) (due []Due) {
	if now.Before(c.seen) {
		c.setBack(now)
	}
	c.seen = now
	for i, s := range c.schedules {
		if c.next[i].After(now) {
			continue
		}
		d := Due{Index: i, At: c.next[i]}
		from := now.Add(-Grace - 1)
		if d.At.Before(from) {
			d.At, d.Missed = skip(s, d.At, from)
		}
		for n := s.Next(d.At); !n.After(now); n = s.Next(n) {
			d.At = n
			d.Missed = min(d.Missed+1, maxMissed)
		}
		d.Late = now.Sub(d.At) > Grace
		c.fired[i], c.next[i] = d.At, s.Next(now)
		due = append(due, d)
	}
	return due
}

// skip counts the times from at up to another, and returns the last of them.
func skip(s Schedule, at, until time.Time) (last time.Time, missed int) {
	for n := s.Next(at); n.Before(until); n = s.Next(n) {
		if missed++; missed >= maxMissed {
			return s.Next(until), missed // Tick corrects a time that is still to come
		}
		at = n
	}
	return at, missed
}

// setBack handles a wall clock that was set back to now.
func (c *Clock) setBack(now time.Time) {
	for i, s := range c.schedules {
		from := now
		if f := c.fired[i]; f.After(now) && f.Sub(now) < time.Hour {
			from = f
		}
		c.next[i] = s.Next(from)
	}
}

// Next returns when the next schedule is due; zero if there is none.
func (c *Clock) Next() (at time.Time) {
	for _, n := range c.next {
		if at.IsZero() || n.Before(at) {
			at = n
		}
	}
	return at
}
