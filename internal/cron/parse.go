package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	_ "time/tzdata" // for machines without zone files
)

// Error is a fault in an expression.
type Error struct {
	Expr   string
	Field  string // such as "minute" or "day of month"; empty for the whole expression
	Offset int    // offset of Text in Expr, in bytes
	Text   string // the faulty text
	Msg    string // the fault, or what was expected
}

func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("cron expression %.80q: %s", e.Expr, e.Msg)
	}
	return fmt.Sprintf("cron expression %.80q: %s %.40q: %s", e.Expr, e.Field, e.Text, e.Msg)
}

// field describes the values of one field.
type field struct {
	name      string
	low, high int
	names     []string // of the values from low
	days      bool     // ? is *
}

// week reports whether the field is the days of the week, in which Sunday is both 0 and 7.
func (f field) week() bool { return f.names != nil && f.low == 0 }

// top returns the highest value, counting Sunday once.
func (f field) top() int {
	if f.week() {
		return f.high - 1
	}
	return f.high
}

// The fields in their order.
const (
	seconds = iota
	minutes
	hours
	daysOfMonth
	months
	daysOfWeek
	fields
)

// short is the length of a short name.
const short = 3

// layout returns the fields in their order.
func layout() [fields]field {
	return [fields]field{
		{name: "second", high: 59},
		{name: "minute", high: 59},
		{name: "hour", high: 23},
		{name: "day of month", low: 1, high: 31, days: true},
		{name: "month", low: 1, high: 12, names: []string{
			"January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
			"November", "December",
		}},
		{name: "day of week", high: 7, days: true, names: []string{
			"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
		}},
	}
}

const (
	maxExpression = 1024 // bytes
	maxEvery      = 366 * 24 * time.Hour
)

// Parse parses an expression for a time zone. The error is an *Error. An expression that never
// matches, such as February 30, is an error, so every Schedule has a Next.
func Parse(expr string, zone *time.Location) (*Schedule, error) {
	s := &Schedule{text: expr, zone: zone}
	p := parser{expr: expr}
	var err error
	switch {
	case len(expr) > maxExpression:
		err = p.fail("has %d bytes, at most %d are allowed", len(expr), maxExpression)
	case strings.HasPrefix(strings.TrimSpace(expr), "@"):
		err = p.word(s, strings.Fields(expr))
	default:
		err = p.fields(s)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// parser holds an expression and the place of the current field, for errors.
type parser struct {
	expr   string
	name   string
	offset int
	text   string
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{Expr: p.expr, Field: p.name, Offset: p.offset, Text: p.text, Msg: fmt.Sprintf(format, args...)}
}

const words = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or @every DURATION"

// word parses an expression that begins with @.
func (p *parser) word(s *Schedule, parts []string) error {
	word := strings.ToLower(parts[0])
	if word == "@every" {
		return p.every(s, parts[1:])
	}
	expr, ok := map[string]string{
		"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
		"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
	}[word]
	switch {
	case word == "@reboot":
		return p.fail("there is no @reboot, expected a time: %s", words)
	case !ok:
		return p.fail("%.40q is not known, expected five fields or %s", parts[0], words)
	case len(parts) > 1:
		return p.fail("nothing may follow %s, found %.40q", word, parts[1])
	}
	return (&parser{expr: expr}).fields(s)
}

func (p *parser) every(s *Schedule, parts []string) error {
	if len(parts) != 1 {
		return p.fail("expected one duration after @every, such as @every 90s")
	}
	d, err := time.ParseDuration(parts[0])
	switch {
	case err != nil:
		return p.fail("%.40q is not a duration, expected one such as 90s, 15m or 36h", parts[0])
	case d < time.Second || d%time.Second != 0 || d > maxEvery:
		return p.fail("%.40q: expected whole seconds, from 1s to %dh", parts[0], maxEvery/time.Hour)
	}
	s.every = d
	return nil
}

const expected = "expected five (minute, hour, day of month, month, day of week), six with seconds before them, or " +
	words

// fields parses five or six fields.
func (p *parser) fields(s *Schedule) error {
	parts, places := split(p.expr)
	sets := [fields]*uint64{&s.second, &s.minute, &s.hour, &s.day, &s.month, &s.weekday}
	kinds, skip := layout(), 0
	switch {
	case len(parts) > 0 && strings.Contains(parts[0], "TZ="):
		return p.fail("a time zone is not part of an expression here, set it next to it (timezone)")
	case len(parts) == fields:
	case len(parts) == fields-1:
		s.second, skip = 1, 1
	case len(parts) == 0:
		return p.fail("it is empty, %s", expected)
	default:
		return p.fail("it has %d fields, %s", len(parts), expected)
	}
	for i, text := range parts {
		p.name, p.offset, p.text = kinds[i+skip].name, places[i], text
		set, err := p.list(kinds[i+skip], text)
		if err != nil {
			return err
		}
		*sets[i+skip] = set
	}
	if sunday := uint64(1 << 7); s.weekday&sunday != 0 {
		s.weekday = s.weekday&^sunday | 1
	}
	s.eitherDay = !unrestricted(parts[daysOfMonth-skip]) && !unrestricted(parts[daysOfWeek-skip])
	s.realTime = unrestricted(parts[hours-skip])
	if !s.possible() {
		p.name, p.offset, p.text = kinds[daysOfMonth].name, places[daysOfMonth-skip], parts[daysOfMonth-skip]
		return p.fail("no month of %q has such a day, it would never be due", parts[months-skip])
	}
	return nil
}

// split splits an expression at blanks and returns the parts with their offsets.
func split(expr string) (parts []string, places []int) {
	for i := 0; i < len(expr); {
		n := strings.IndexAny(expr[i:], " \t\r\n")
		if n < 0 {
			n = len(expr) - i
		}
		if n > 0 {
			parts, places = append(parts, expr[i:i+n]), append(places, i)
		}
		i += n + 1
	}
	return parts, places
}

// unrestricted reports whether a field begins with * or ?.
func unrestricted(text string) bool { return text[0] == '*' || text[0] == '?' }

// possible reports whether any day matches. All combinations of a month, a day of that month
// and a day of the week occur within 400 years.
func (s *Schedule) possible() bool {
	if s.eitherDay {
		return true
	}
	for month, days := range []int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31} {
		low := s.day & (1<<(days+1) - 1)
		if s.month&(1<<(month+1)) != 0 && low != 0 {
			return true
		}
	}
	return false
}

func (p *parser) list(f field, text string) (set uint64, err error) {
	start := p.offset
	for item := range strings.SplitSeq(text, ",") {
		p.text = item
		bits, err := p.item(f, item)
		if err != nil {
			return 0, err
		}
		set |= bits
		p.offset += len(item) + 1
	}
	p.offset = start
	return set, nil
}

// item parses one element of a list.
func (p *parser) item(f field, text string) (set uint64, err error) {
	span, stepText, stepped := strings.Cut(text, "/")
	low, high := f.low, f.top()
	switch from, to, isRange := strings.Cut(span, "-"); {
	case span == "*", span == "?" && f.days:
	case isRange:
		if low, err = p.value(f, from); err != nil {
			return 0, err
		}
		if high, err = p.value(f, to); err != nil {
			return 0, err
		}
		switch { // Sunday is the first or the last day, whichever fits
		case f.week() && high == 0 && low > 0 && to != "0":
			high = 7
		case f.week() && low == 7:
			low = 0
		}
		if low > high {
			return 0, p.fail("the range ends before it begins; write it as two, %s", p.wrapped(f, from, to))
		}
	default:
		if low, err = p.value(f, span); err != nil {
			return 0, err
		}
		high = max(high, low)
		if !stepped {
			high = low
		}
	}
	step := 1
	if stepped {
		if step, err = p.step(f, stepText); err != nil {
			return 0, err
		}
	}
	for v := low; v <= high; v += step {
		set |= 1 << v
	}
	return set, nil
}

// wrapped returns a range that wraps around as two ranges.
func (p *parser) wrapped(f field, from, to string) string {
	if f.week() {
		return fmt.Sprintf("%s-6,0-%s", from, to)
	}
	return fmt.Sprintf("%s-%d,%d-%s", from, f.high, f.low, to)
}

func (p *parser) step(f field, text string) (int, error) {
	size := f.top() - f.low + 1
	n, ok := number(text)
	switch {
	case !ok || n == 0:
		return 0, p.fail("expected a number from 1 to %d after the slash", size)
	case n > size:
		return 0, p.fail("a step of %d is more than the field has, expected at most %d", n, size)
	}
	return n, nil
}

func (p *parser) value(f field, text string) (int, error) {
	n, ok := number(text)
	for i := 0; !ok && i < len(f.names); i++ {
		if name := f.names[i]; strings.EqualFold(name, text) || strings.EqualFold(name[:short], text) {
			return f.low + i, nil
		}
	}
	switch {
	case ok && n >= f.low && n <= f.high:
		return n, nil
	case ok:
		return 0, p.fail("%d is not in %d-%d", n, f.low, f.high)
	}
	return 0, p.fail("%s", f.expected(text))
}

func (f field) expected(text string) string {
	switch {
	case text == "":
		return "a value is missing"
	case strings.ContainsAny(text, "LW#lw") && f.days:
		return "L, W and # are not supported"
	case text == "?":
		return "? can only stand for a day"
	}
	names := ""
	if f.names != nil {
		names = fmt.Sprintf(", a name from %s to %s", strings.ToUpper(f.names[0][:short]),
			strings.ToUpper(f.names[len(f.names)-1][:short]))
	}
	return fmt.Sprintf("expected a number from %d to %d%s, *, a range a-b, a step */n or a list a,b", f.low, f.high,
		names)
}

// number parses digits, without signs and underscores.
func number(text string) (int, bool) {
	if text == "" || len(text) > 6 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}
