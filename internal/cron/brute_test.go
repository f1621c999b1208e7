package cron

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var long = flag.Bool("cron.long", false, "walk through fifty years of all zones, with many more schedules")

// zones returns zones with unusual clock changes: of half an hour, at midnight, of a whole day,
// of two hours, and around Ramadan.
func zones() []string {
	return []string{
		"UTC", "Europe/Berlin", "Europe/Dublin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Sao_Paulo",
		"Asia/Kathmandu", "Pacific/Apia", "Atlantic/Azores", "Antarctica/Troll", "Africa/Casablanca", "America/St_Johns", "Asia/Gaza",
		"America/Asuncion", "Asia/Pyongyang", "America/Caracas", "Pacific/Kiritimati",
	}
}

// reader is a simple independent implementation: it reports whether an expression matches a
// minute of the wall clock.
type reader struct {
	minute, hour, day, month, weekday values
	both, realTime                    bool
}

// values returns the matching values of a field.
type values [60]bool

func readExpression(expr string) reader {
	f := strings.Fields(expr)
	set := func(text string, low, high int) (all values) {
		for _, item := range strings.Split(text, ",") {
			span, step, _ := strings.Cut(item, "/")
			from, to := low, high
			if a, b, ok := strings.Cut(span, "-"); ok {
				from, _ = strconv.Atoi(a)
				to, _ = strconv.Atoi(b)
			} else if span != "*" {
				from, _ = strconv.Atoi(span)
				if step == "" {
					to = from
				}
			}
			by := 1
			if step != "" {
				by, _ = strconv.Atoi(step)
			}
			for v := from; v <= to; v++ {
				if (v-from)%by == 0 {
					all[v] = true
				}
			}
		}
		return all
	}
	r := reader{
		minute: set(f[0], 0, 59), hour: set(f[1], 0, 23), day: set(f[2], 1, 31), month: set(f[3], 1, 12), weekday: set(f[4], 0, 6),
		both: f[2][0] == '*' || f[4][0] == '*', realTime: f[1][0] == '*',
	}
	if r.weekday[7] {
		r.weekday[0] = true
	}
	return r
}

func (r *reader) matches(wall time.Time) bool {
	if !r.minute[wall.Minute()] || !r.hour[wall.Hour()] || !r.month[int(wall.Month())] {
		return false
	}
	day, weekday := r.day[wall.Day()], r.weekday[int(wall.Weekday())]
	if r.both {
		return day && weekday
	}
	return day || weekday
}

// walk calls f for every minute in a zone, with the wall time and the wall times skipped since
// the previous minute. again reports whether the clock has shown this or a later time before.
func walk(zone *time.Location, from, to time.Time, f func(at time.Time, wall time.Time, skipped []time.Time, again bool)) {
	show := func(at time.Time) time.Time {
		l := at.In(zone)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
	}
	var latest time.Time
	for at := from.Add(-72 * time.Hour); at.Before(to); at = at.Add(time.Minute) {
		wall := show(at)
		var skipped []time.Time
		if !latest.IsZero() {
			for s := latest.Add(time.Minute); s.Before(wall); s = s.Add(time.Minute) {
				skipped = append(skipped, s)
			}
		}
		again := !latest.IsZero() && !wall.After(latest)
		if wall.After(latest) {
			latest = wall
		}
		if !at.Before(from) {
			f(at, wall, skipped, again)
		}
	}
}

// compare compares schedules with a walk through the minutes.
func compare(t *testing.T, zone *time.Location, from, to time.Time, exprs []string) (fires int) {
	t.Helper()
	type one struct {
		reader
		s    *Schedule
		next time.Time
		bad  bool
	}
	all := make([]*one, len(exprs))
	for i, expr := range exprs {
		s := mustParse(t, expr, zone)
		all[i] = &one{reader: readExpression(expr), s: s, next: s.Next(from.Add(-time.Second))}
	}
	walk(zone, from, to, func(at, wall time.Time, skipped []time.Time, again bool) {
		for _, o := range all {
			due := o.matches(wall) && (o.realTime || !again) ||
				!o.realTime && slices.ContainsFunc(skipped, o.matches)
			if due != o.next.Equal(at) && !o.bad {
				t.Errorf("%v: %s: at %v due is %v, the schedule says %v", zone, o.s, at.In(zone), due, o.next)
				o.bad = true
			}
			if due && !o.bad {
				o.next = o.s.Next(at)
				fires++
			}
		}
	})
	return fires
}

// fixedExpressions returns schedules around the hours of clock changes.
func fixedExpressions() []string {
	return []string{
		"30 2 * * *", "0 0 * * *", "*/20 1,2 * * *", "15 * * * *", "*/30 */2 * * 1", "0 0 1,15 * 0", "45 23 * * 6,7", "10,50 0-3 */2 3,4,9-11 *",
	}
}

// randomExpressions returns random expressions of all forms.
func randomExpressions(r *rand.Rand, n int) (exprs []string) {
	item := func(low, high int) string {
		a := low + r.IntN(high-low+1)
		b := a + r.IntN(high-a+1)
		switch r.IntN(6) {
		case 0:
			return fmt.Sprintf("%d-%d", a, b)
		case 1:
			return fmt.Sprintf("%d-%d/%d", a, b, 1+r.IntN(5))
		case 2:
			return fmt.Sprintf("%d/%d", a, 1+r.IntN(7))
		}
		return strconv.Itoa(a)
	}
	field := func(low, high, stars int) string {
		switch k := r.IntN(10); {
		case k < stars:
			return "*"
		case k == stars:
			return fmt.Sprintf("*/%d", 2+r.IntN(5))
		}
		items := []string{item(low, high)}
		for r.IntN(3) == 0 {
			items = append(items, item(low, high))
		}
		return strings.Join(items, ",")
	}
	for len(exprs) < n {
		expr := strings.Join([]string{field(0, 59, 1), field(0, 23, 3), field(1, 31, 5), field(1, 12, 6), field(0, 6, 5)}, " ")
		if _, err := Parse(expr, time.UTC); err == nil {
			exprs = append(exprs, expr)
		}
	}
	return exprs
}

// Schedules agree with a walk through the minutes, for days around each clock change and, with
// -cron.long, for whole years.
func TestWalk(t *testing.T) {
	fires := 0
	for i, name := range zones() {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			zone := mustZone(t, name)
			if *long {
				for year := 1980; year < 2035; year++ {
					fires += compare(t, zone, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+1, 1, 3, 0, 0, 0, 0, time.UTC),
						append(fixedExpressions(), randomExpressions(r, 40)...))
				}
				return
			}
			for at, year := time.Date(2008, 1, 1, 0, 0, 0, 0, time.UTC), 0; year < 2020; {
				_, end := at.In(zone).ZoneBounds()
				if end.IsZero() || end.Year() >= 2020 {
					break
				}
				fires += compare(t, zone, end.Truncate(time.Minute).Add(-26*time.Hour), end.Truncate(time.Minute).Add(50*time.Hour), append(fixedExpressions(), randomExpressions(r, 8)...))
				at, year = end, end.Year()
			}
		})
	}
	for _, name := range []string{"Europe/Berlin", "Pacific/Apia"} {
		fires += compare(t, mustZone(t, name), time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2012, 1, 3, 0, 0, 0, 0, time.UTC), fixedExpressions())
	}
	t.Log(fires, "times due")
	if fires < 10_000 {
		t.Errorf("only %d times due: this checks nothing", fires)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range append(fixedExpressions(), "0 0 30 2 *", "@every 5m", "@daily", "1-5/2,7 0 ? jan SUN", "* * * * * *", "0 0 29 2 */7", "TZ=x * * * * *") {
		f.Add(seed, int64(1_700_000_000), uint8(3))
	}
	f.Fuzz(func(t *testing.T, expr string, after int64, zone uint8) {
		names := zones()
		s, err := Parse(expr, mustZone(t, names[int(zone)%len(names)]))
		if err != nil {
			if s != nil || strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Errorf("%q: %v, %q", expr, s, err)
			}
			return
		}
		at := time.Unix(after%(1<<36), 0)
		for range 5 {
			next := s.Next(at)
			if !next.After(at) || next.Sub(at) > 290*365*24*time.Hour {
				t.Fatalf("%q after %v: %v", expr, at, next)
			}
			if half := at.Add(next.Sub(at) / 2); !s.Next(half).Equal(next) {
				t.Fatalf("%q: after %v it is due at %v, after %v at %v", expr, at, next, half, s.Next(half))
			}
			at = next
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for _, expr := range []string{"*/5 * * * *", "30 2 * * *", "0 0 29 2 *"} {
		s := mustParse(b, expr, mustZone(b, "Europe/Berlin"))
		b.Run(expr, func(b *testing.B) {
			at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				at = s.Next(at)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		mustParse(b, "*/5 9-17 * * MON-FRI", time.UTC)
	}
}
