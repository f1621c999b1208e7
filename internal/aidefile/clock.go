package aidefile

import "time"

// Clock says when the schedules of an agent are due. It is told the time by the
// wall, since that is what schedules are about, and stands it being set.
//
//   - Nothing is due for a time before the clock began.
//   - A time that has passed by more than Grace, because the machine slept or
//     the clock was set forward, is missed and not made up for. However many
//     have passed, one is due.
//   - A clock that is set back by less than an hour makes nothing due twice.
type Clock struct {
	schedules []Schedule
	next      []time.Time
	fired     []time.Time // the last one that was due
	seen      time.Time
}

// Grace is how late a schedule may be noticed and still be due.
const Grace = time.Minute

// maxMissed bounds the counting of missed times.
const maxMissed = 10_000

// NewClock makes a clock that begins now.
func NewClock(now time.Time, schedules []Schedule) *Clock {
	c := &Clock{schedules: schedules, seen: now}
	for _, s := range schedules {
		c.next = append(c.next, s.Next(now))
		c.fired = append(c.fired, time.Time{})
	}
	return c
}

// Due is a schedule whose time has come, or has passed.
type Due struct {
	Index int       // of the schedule
	At    time.Time // the last time that has come; if Late, the last that was missed
	// Missed is how many times have passed unnoticed beside At, 10000 at most.
	Missed int
	Late   bool // At is too long ago
}

// Tick says what is due now.
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

// skip counts the times from the one given up to another, and returns the last
// that it is worth knowing.
func skip(s Schedule, at, until time.Time) (last time.Time, missed int) {
	for n := s.Next(at); n.Before(until); n = s.Next(n) {
		if missed++; missed >= maxMissed {
			return s.Next(until), missed // or, if that is to come, see Tick
		}
		at = n
	}
	return at, missed
}

// setBack: the wall clock was, to now.
func (c *Clock) setBack(now time.Time) {
	for i, s := range c.schedules {
		from := now
		if f := c.fired[i]; f.After(now) && f.Sub(now) < time.Hour {
			from = f
		}
		c.next[i] = s.Next(from)
	}
}

// Next is when the next schedule is due; zero if there is none.
func (c *Clock) Next() (at time.Time) {
	for _, n := range c.next {
		if at.IsZero() || n.Before(at) {
			at = n
		}
	}
	return at
}
