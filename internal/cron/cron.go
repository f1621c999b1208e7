// Package cron computes when a schedule such as "30 2 * * MON-FRI" is due next,
// in a time zone, with its changes of the clock. It knows no clock of its own
// and keeps no state: Next is a function of its arguments.
//
// # Expressions
//
// Five fields, minute hour day-of-month month day-of-week, or six with a
// field of seconds before them. A field is a list of
//
//   - every value            */n      every n-th, from the lowest
//     a        one value              a/n      every n-th from a to the highest
//     a-b      from a to b            a-b/n    every n-th of them
//
// Months and days of the week may be names in any case, whole or their first
// three letters (JAN, friday); Sunday is 0 and 7. In the two fields of days ? is *. Instead of fields:
// @hourly, @daily and @midnight, @weekly, @monthly, @yearly and @annually, and
// @every with a duration ("@every 90s"), which are the multiples of it since
// 1970-01-01T00:00:00Z.
//
// If both fields of days are restricted, a day matches that matches either of
// them (POSIX); if one of them begins with *, it must match both. A field that
// begins with * counts as not restricted even if it goes on, as in */2 (Vixie cron).
//
// # Changes of the clock
//
// A schedule whose hours begin with * means real time: it is due whenever the
// clock on the wall matches. What the clock leaves out it does not get, and what
// the clock shows twice is due twice, so that "*/15 * * * *" is due every 15
// minutes whatever the clock does.
//
// All others mean times of the day, each of them once: times that the clock
// leaves out are due in the moment after the gap, as one; times that it shows
// twice are due at the first of them. "30 2 * * *" is due exactly once a day,
// on all days. (This is the rule of Vixie cron, but that Vixie cron takes
// schedules whose minutes begin with * for real time as well: "*/15 2 * * *"
// would be lost in the night in which there is no hour 2.)
package cron

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Schedule is a parsed expression in a time zone. It does not change, and may
// be used by many goroutines at once.
type Schedule struct {
	text  string
	zone  *time.Location
	every time.Duration // @every, if not 0

	second, minute, hour, day, month, weekday uint64 // bit n: the value n matches
	eitherDay                                 bool   // a day needs to match only one of day and weekday
	realTime                                  bool   // by the clock on the wall, see the package
}

// String is the expression as it was given.
func (s *Schedule) String() string { return s.text }

// Zone is the time zone of the schedule.
func (s *Schedule) Zone() *time.Location { return s.zone }

// Next is the first time after a given one at which the schedule is due, in
// the zone of the schedule. It always exists: see Parse.
func (s *Schedule) Next(after time.Time) time.Time {
	if s.every > 0 {
		return s.nextMultiple(after)
	}
	now := after.Unix() + 1 // the first whole second after it
	part := partAt(s.zone, now)
	from := part.wall(now)
	switch {
	case s.realTime:
	case now == part.start: // what was left out right before it is still to come
		from = part.shownUntil()
	default:
		from = max(from, part.shownUntil())
	}
	for due := s.match(from); ; {
		switch {
		case due < part.wall(part.start): // left out by the clock, right before this part
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

// part is a stretch of time in which the offset of a zone does not change. Wall
// times are seconds since 1970 of what the clock on the wall shows.
type part struct {
	zone       *time.Location
	start, end int64 // unix; end is not in it
	first      bool  // nothing is before it
	last       bool  // it has no end
	offset     int64
}

// partAt is the part that a time is in.
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
		// Far ahead, parts end with the year, which ZoneBounds takes to have 365
		// days: the last day of a leap year it does not know.
		p.end = unix - unix%secondsPerDay + secondsPerDay
	}
	return p
}

const secondsPerDay = 24 * 3600

func (p part) wall(unix int64) int64    { return unix + p.offset }
func (p part) instant(wall int64) int64 { return wall - p.offset }

// next is the part that begins where p ends.
func (p part) next() part {
	n := partAt(p.zone, p.end)
	n.start = p.end
	return n
}

// longestRepeat is more than any clock was ever set back by.
const longestRepeat = 48 * 3600

// shownUntil is the wall time up to which the clock has shown everything before p
// began: more than the start of p shows if it was set back, less if it left
// something out.
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

// match is the first wall time that matches, at or after a given one.
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

// matchTime is the first second of the day that matches, not before the time
// of the day of t.
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

// next is the first value of a set that is at least low.
func next(set uint64, low int) (int, bool) {
	rest := set >> low << low
	return bits.TrailingZeros64(rest), rest != 0
}

// LoadZone returns a time zone by its IANA name, such as Europe/Berlin. UTC is
// one, Local is the one of this machine. It needs no files: the zones are part
// of the program, and those of the system are used where there are any.
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
