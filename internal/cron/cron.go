// Package cron computes when a schedule such as "30 2 * * MON-FRI" is next due, in a time
// zone with its clock changes. Next is a pure function of its arguments.
//
// # Expressions
//
// An expression has five fields, minute hour day-of-month month day-of-week, or six with
// seconds before them. A field is a list of
//
//   - every value            */n      every n-th, from the lowest
//     a        one value              a/n      every n-th from a to the highest
//     a-b      from a to b            a-b/n    every n-th of them
//
// Months and days of the week may be names in any case, in full or as their first three
// letters (JAN, friday). Sunday is 0 and 7. In the two day fields ? means *. Instead of
// fields, an expression may be @hourly, @daily, @midnight, @weekly, @monthly, @yearly or
// @annually, or @every with a duration ("@every 90s"): the multiples of the duration since
// 1970-01-01T00:00:00Z.
//
// If both day fields are restricted, a day must match only one of them (POSIX). If one of
// them begins with *, it must match both. A field that begins with * counts as unrestricted
// even if it continues, as in */2 (Vixie cron).
//
// # Clock changes
//
// A schedule whose hours begin with * follows real time: it is due whenever the wall clock
// matches. Skipped times are not due, and repeated times are due twice. So "*/15 * * * *" is
// due every 15 minutes across clock changes.
//
// All other schedules mean times of the day, each due once. Skipped times are due together
// in the moment after the gap, and repeated times at their first occurrence. So "30 2 * * *"
// is due exactly once on every day. This is the rule of Vixie cron, with one exception:
// Vixie cron also treats schedules whose minutes begin with * as real time. It would skip
// "*/15 2 * * *" in a night without an hour 2.
package cron

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Schedule is a parsed expression in a time zone. It is immutable and safe for concurrent use.
type Schedule struct {
	text  string
	zone  *time.Location
	every time.Duration // @every, if not 0

	second, minute, hour, day, month, weekday uint64 // bit n: the value n matches
	eitherDay                                 bool   // a day needs to match only one of day and weekday
	realTime                                  bool   // see Clock changes in the package documentation
}

// String returns the expression as it was given.
func (s *Schedule) String() string { return s.text }

// Zone returns the time zone of the schedule.
func (s *Schedule) Zone() *time.Location { return s.zone }

// Next returns the first time after a given one at which the schedule is due, in the zone of
// the schedule. There always is one; see Parse.
func (s *Schedule) Next(after time.Time) time.Time {
	if s.every > 0 {
		return s.nextMultiple(after)
	}
	now := after.Unix() + 1 // the first whole second after it
	part := partAt(s.zone, now)
	from := part.wall(now)
	switch {
	case s.realTime:
	case now == part.start: // times that the clock has just skipped are still due
		from = part.shownUntil()
	default:
		from = max(from, part.shownUntil())
	}
	for due := s.match(from); ; {
		switch {
		case due < part.wall(part.start): // skipped by the clock right before this part
			return s.at(part.start)
		case part.last || due < part.wall(part.end):
			return s.at(part.instant(due))
		}
		next := part.next()
		if s.realTime {
			from = next.wall(next.start)
		} else {
			from = max(from, part.wall(part.end), part.shownUntil())
		}
		if due < from || from < part.wall(part.end) {
			due = s.match(from)
		}
		part = next
	}
}

func (s *Schedule) at(unix int64) time.Time { return time.Unix(unix, 0).In(s.zone) }

func (s *Schedule) nextMultiple(after time.Time) time.Time {
	step := int64(s.every / time.Second)
	now := after.Unix()
	return s.at(now - (now%step+step)%step + step)
}

// part is a period in which the offset of a zone does not change. Wall times are the readings
// of the wall clock in seconds since 1970.
type part struct {
	zone       *time.Location
	start, end int64 // unix times; end is exclusive
	first      bool  // there is no earlier part
	last       bool  // there is no later part
	offset     int64
}

// partAt returns the part that contains a time.
func partAt(zone *time.Location, unix int64) part {
	t := time.Unix(unix, 0).In(zone)
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	p := part{zone: zone, first: start.IsZero(), last: end.IsZero(), offset: int64(offset)}
	p.start, p.end = start.Unix(), end.Unix()
	if p.first {
		p.start = unix
	}
	if !p.last && p.end <= unix {
		// In the far future, parts end with the year. ZoneBounds assumes 365 days and omits the
		// last day of a leap year.
		p.end = unix - unix%secondsPerDay + secondsPerDay
	}
	return p
}

const secondsPerDay = 24 * 3600

func (p part) wall(unix int64) int64    { return unix + p.offset }
func (p part) instant(wall int64) int64 { return wall - p.offset }

// next returns the part that begins where p ends.
func (p part) next() part {
	n := partAt(p.zone, p.end)
	n.start = p.end
	return n
}

// longestRepeat is longer than any clock was ever set back.
const longestRepeat = 48 * 3600

// shownUntil returns the end of the wall times that the clock has shown before p. It is later
// than the start of p if the clock was set back, and earlier if the clock has skipped times.
func (p part) shownUntil() int64 {
	if p.first {
		return p.wall(p.start)
	}
	latest := int64(math.MinInt64)
	for at := p; !at.first && at.start > p.start-longestRepeat; {
		at = partAt(p.zone, at.start-1)
		latest = max(latest, at.wall(at.end))
	}
	return latest
}

// match returns the first matching wall time at or after a given one.
func (s *Schedule) match(wall int64) int64 {
	t := time.Unix(wall, 0).UTC()
	day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	for ; ; t = day {
		switch {
		case s.month&(1<<day.Month()) == 0:
			day = time.Date(day.Year(), day.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		case !s.matchDay(day):
		default:
			if second, ok := s.matchTime(t); ok {
				return day.Unix() + second
			}
		}
		day = day.AddDate(0, 0, 1)
	}
}

func (s *Schedule) matchDay(day time.Time) bool {
	byDay, byWeekday := s.day&(1<<day.Day()) != 0, s.weekday&(1<<day.Weekday()) != 0
	if s.eitherDay {
		return byDay || byWeekday
	}
	return byDay && byWeekday
}

// matchTime returns the first matching second of the day at or after the time of day of t.
func (s *Schedule) matchTime(t time.Time) (second int64, ok bool) {
	h, m, sec := t.Clock()
	if s.hour&(1<<h) != 0 {
		if s.minute&(1<<m) != 0 {
			if found, ok := next(s.second, sec); ok {
				return clock(h, m, found), true
			}
		}
		if found, ok := next(s.minute, m+1); ok {
			return clock(h, found, bits.TrailingZeros64(s.second)), true
		}
	}
	if found, ok := next(s.hour, h+1); ok {
		return clock(found, bits.TrailingZeros64(s.minute), bits.TrailingZeros64(s.second)), true
	}
	return 0, false
}

func clock(h, m, s int) int64 { return int64(h)*3600 + int64(m)*60 + int64(s) }

// next returns the first value of a set that is at least low.
func next(set uint64, low int) (int, bool) {
	rest := set >> low << low
	return bits.TrailingZeros64(rest), rest != 0
}

// LoadZone returns a time zone by its IANA name, such as Europe/Berlin or UTC. Local is the
// zone of this machine. It uses the zone files of the system, or those in the program.
func LoadZone(name string) (*time.Location, error) {
	if name == "" || strings.TrimSpace(name) != name {
		return nil, fmt.Errorf("time zone %q: expected the name of one, such as Europe/Berlin or UTC", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known: expected an IANA name such as "+
			"Europe/Berlin, America/New_York or UTC", name)
	}
	return zone, nil
}
