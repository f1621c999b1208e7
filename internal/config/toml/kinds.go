package toml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// Text returns the read function of a key whose value is a non-empty string.
func Text[T any](field func(*T) *string) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if s, ok := r.Text(v, "a string"); ok {
			*field(into) = s
		}
	}
}

// Text reads a non-empty string. Errors describe it as expected.
func (r *Reader) Text(v *Value, expected string) (string, bool) {
	if !r.Want(v, KindString, expected) {
		return "", false
	}
	if strings.TrimSpace(v.Text) == "" {
		r.Fail(v, "remove the key if nothing is meant", "%s is empty, expected %s", r.Label(v), expected)
		return "", false
	}
	return v.Text, true
}

// Bool returns the read function of a key whose value is true or false.
func Bool[T any](field func(*T) *bool) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if v.Kind == KindString && (v.Text == "true" || v.Text == "false") {
			r.Fail(v, "write "+v.Text+" without quotes", "%s is a string, expected true or false", r.Label(v))
		} else if r.Want(v, KindBool, "true or false") {
			*field(into) = v.Text == "true"
		}
	}
}

// Duration returns the read function of a key whose value is a duration above zero.
func Duration[T any](field func(*T) *time.Duration) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if d, ok := r.Duration(v); ok {
			*field(into) = d
		}
	}
}

// DurationOrNever returns the read function of a key whose value is a duration above zero,
// or "never", which becomes -1.
func DurationOrNever[T any](field func(*T) *time.Duration) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if v.Kind == KindString && v.Text == "never" {
			*field(into) = -1
		} else if d, ok := r.Duration(v); ok {
			*field(into) = d
		}
	}
}

// Types of durations in rows, in addition to "duration".
const (
	DurationOrZeroType  = `duration or "0s"`
	DurationOrNeverType = `duration or "never"`
)

const durationType = `a duration such as "10s" or "1h30m"`

// Duration reads a duration above zero.
func (r *Reader) Duration(v *Value) (time.Duration, bool) {
	d, ok := r.DurationOrZero(v)
	if ok && d == 0 {
		r.Fail(v, "", "%s is %s, expected a duration above zero", r.Label(v), spec.Quote(v.Text))
		return 0, false
	}
	return d, ok
}

// DurationOrZero reads a duration of zero or more.
func (r *Reader) DurationOrZero(v *Value) (time.Duration, bool) {
	if v.Kind == KindInteger || v.Kind == KindFloat {
		r.Fail(v, secondsMeant(v), "%s is a number without a unit, expected %s", r.Label(v), durationType)
		return 0, false
	}
	if !r.Want(v, KindString, durationType) {
		return 0, false
	}
	d, err := timespan.Parse(v.Text)
	switch _, notNumber := strconv.ParseFloat(v.Text, 64); {
	case err != nil && notNumber == nil:
		r.Fail(v, secondsMeant(v),
			"%s is %s, a number without a unit, expected %s", r.Label(v), spec.Quote(v.Text), durationType)
	case err != nil:
		r.Fail(v, "the units are "+timespan.Units, "%s is %s, expected %s", r.Label(v), spec.Quote(v.Text),
			durationType)
	case strings.HasPrefix(v.Text, "-"):
		r.Fail(v, "", "%s is %s, negative, expected %s", r.Label(v), spec.Quote(v.Text), durationType)
	default:
		return d, true
	}
	return 0, false
}

func secondsMeant(v *Value) string {
	return "write " + spec.Quote(v.Text+"s") + " if seconds are meant"
}

// Whole reads a duration above zero that is written as an integer number of units.
func (r *Reader) Whole(v *Value, unit time.Duration, name string) (time.Duration, bool) {
	longest := int64(100 * 365 * 24 * time.Hour / unit) // a century, which does not overflow
	n, ok := r.Integer(v, 1, longest, "an integer of at least 1, in "+name)
	return time.Duration(n) * unit, ok
}

// Int returns the read function of a key whose value is an integer from low to high.
func Int[T any, N ~int | ~int64 | ~uint64](low, high int64, field func(*T) *N) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if n, ok := r.Integer(v, low, high, fmt.Sprintf("an integer from %d to %d", low, high)); ok {
			*field(into) = N(n)
		}
	}
}

// IntegerOrUnlimited reads an integer from low to high, or "unlimited", which becomes -1.
// It returns nil if the value is neither.
func (r *Reader) IntegerOrUnlimited(v *Value, low, high int64) *int {
	if v.Kind == KindString && v.Text == "unlimited" {
		return new(-1)
	}
	expected := fmt.Sprintf(`an integer from 0 to %d or "unlimited"`, high)
	if v.Kind == KindString {
		r.Fail(v, "", "%s is %s, expected %s", r.Label(v), spec.Quote(v.Text), expected)
		return nil
	}
	n, ok := r.Integer(v, low, high, expected)
	if !ok {
		return nil
	}
	return new(int(n))
}

// Integer reads an integer from low to high.
func (r *Reader) Integer(v *Value, low, high int64, expected string) (int64, bool) {
	if !r.Want(v, KindInteger, expected) {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Text, 0, 64)
	if err != nil || n < low || n > high {
		r.Fail(v, "", "%s is %s, expected %s", r.Label(v), v.Text, expected)
		return 0, false
	}
	return n, true
}

// enum is an enumeration whose String starts with "invalid(" above its last value.
type enum interface {
	~uint8
	String() string
}

// Word returns the read function of a key whose value is a name of an enumeration, or
// another spelling that parse takes. meant may return a hint for an unknown word; without
// one, the hint is the nearest name.
func Word[T any, E enum](parse func(string) (E, error), field func(*T) *E,
	meant ...func(string) string) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if e, err := parse(v.Text); err == nil && v.Kind == KindString {
			*field(into) = e
			return
		}
		r.choose(v, names[E](), meant...) // reports the error
	}
}

// Name returns the read function of a key whose value is a name of an enumeration.
func Name[T any, E enum](field func(*T) *E) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if e, ok := ReadName[E](r, v); ok {
			*field(into) = e
		}
	}
}

// ReadName reads a name of an enumeration.
func ReadName[E enum](r *Reader, v *Value) (E, bool) {
	i, ok := r.choose(v, names[E]())
	return E(i), ok
}

// names returns the names of all values of an enumeration.
func names[E enum]() []string {
	var all []string
	for e := E(0); !strings.HasPrefix(e.String(), "invalid("); e++ {
		all = append(all, e.String())
	}
	return all
}

// OneOf returns the read function of a key whose value is one of a few words. set gets
// the index of the word.
func OneOf[T any](words []string, set func(*T, int)) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if i, ok := r.choose(v, words); ok {
			set(into, i)
		}
	}
}

// choose reads one of a few words, and returns its index.
func (r *Reader) choose(v *Value, words []string, meant ...func(string) string) (int, bool) {
	expected := "one of " + strings.Join(words, ", ")
	if !r.Want(v, KindString, expected) {
		return 0, false
	}
	i := slices.Index(words, v.Text)
	if i < 0 {
		hint := spec.DidYouMean(v.Text, words...)
		for _, other := range meant {
			hint = cmp.Or(other(v.Text), hint)
		}
		r.Fail(v, hint, "%s is %s, expected %s", r.Label(v), spec.Quote(v.Text), expected)
	}
	return i, i >= 0
}

// List returns the read function of a key whose value is an array of strings. Errors
// describe it as expected.
func List[T any](expected string, field func(*T) *[]string) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if list, ok := r.List(v, expected); ok {
			*field(into) = list
		}
	}
}

// List reads an array of strings.
func (r *Reader) List(v *Value, expected string) ([]string, bool) {
	if !r.Want(v, KindArray, expected) {
		return nil, false
	}
	list, ok := make([]string, 0, len(v.Elements)), true
	for _, e := range v.Elements {
		ok = r.Want(e, KindString, "a string") && ok
		list = append(list, e.Text)
	}
	if !ok {
		r.markFaulty(v) // no further error about the whole list
	}
	return list, ok
}

// StringMap returns the read function of a key whose value is a table of strings. Errors
// describe it as expected.
func StringMap[T any](expected string, field func(*T) *map[string]string) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if !r.Want(v, KindTable, expected) {
			return
		}
		all := make(map[string]string, len(v.Fields))
		for _, f := range v.Fields {
			if r.Want(f, KindString, "a string") {
				all[f.Name] = f.Text
			}
		}
		*field(into) = all
	}
}

// Strings reads a string or an array of strings, and returns the values.
func (r *Reader) Strings(v *Value, expected string) []*Value {
	if v.Kind != KindArray {
		if _, ok := r.Text(v, expected); ok {
			return []*Value{v}
		}
		return nil
	}
	var all []*Value
	for _, e := range v.Elements {
		if _, ok := r.Text(e, expected); ok {
			all = append(all, e)
		}
	}
	if len(v.Elements) == 0 {
		r.Fail(v, "", "%s is empty, expected %s", r.Label(v), expected)
	}
	return all
}
