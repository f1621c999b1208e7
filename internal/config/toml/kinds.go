package toml

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// Text returns the read function of a key whose value is a string that is not empty.
func Text[T any](field func(*T) *string) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if s, ok := r.Text(v, "a string"); ok {
			*field(into) = s
		}
	}
}

// Text reads a string that is not empty. It is described as expected in errors.
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

// Duration returns the read function of a key whose value is a time above zero.
func Duration[T any](field func(*T) *time.Duration) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		if d, ok := r.Duration(v); ok {
			*field(into) = d
		}
	}
}

// Types of durations, as rows name them, in addition to "duration".
const (
	DurationOrZeroType  = `duration or "0s"`
	DurationOrNeverType = `duration or "never"`
)

const durationType = `a duration such as "10s" or "1h30m"`

// Duration reads a time above zero.
func (r *Reader) Duration(v *Value) (time.Duration, bool) {
	d, ok := r.DurationOrZero(v)
	if ok && d == 0 {
		r.Fail(v, "", "%s is %s, expected a duration above zero", r.Label(v), spec.Quote(v.Text))
		return 0, false
	}
	return d, ok
}

// DurationOrZero reads a time of zero or more.
func (r *Reader) DurationOrZero(v *Value) (time.Duration, bool) {
	if v.Kind == KindInteger || v.Kind == KindFloat {
		r.Fail(v, secondsMeant(v),
			"%s is a number without a unit, expected %s", r.Label(v), durationType)
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

// Whole reads a time above zero that is written as a number of units.
func (r *Reader) Whole(v *Value, unit time.Duration, name string) (time.Duration, bool) {
	longest := int64(100 * 365 * 24 * time.Hour / unit) // a century, and no overflow
	n, ok := r.Integer(v, 1, longest, "an integer of at least 1, in "+name)
	return time.Duration(n) * unit, ok
}

// Integer reads a number between low and high.
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

// Word returns the read function of a key whose value is one of a few words, or of
// the other spellings that parse takes. meant gives the hint for words that neither
// knows; where it is empty, the hint is the nearest word.
func Word[T any, E interface {
	~uint8
	String() string
}](parse func(string) (E, error), field func(*T) *E, meant ...func(string) string) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) {
		expected := "one of " + strings.Join(words[E](), ", ")
		if !r.Want(v, KindString, expected) {
			return
		}
		e, err := parse(v.Text)
		if err != nil {
			hint := DidYouMean(suggest.Nearest(v.Text, words[E]()))
			for _, other := range meant {
				hint = cmp.Or(other(v.Text), hint)
			}
			r.Fail(v, hint, "%s is %s, expected %s", r.Label(v), spec.Quote(v.Text), expected)
			return
		}
		*field(into) = e
	}
}

// words returns the names of all values of an enumeration of package supervisor.
func words[E interface {
	~uint8
	String() string
}]() []string {
	var all []string
	for e := E(0); !strings.HasPrefix(e.String(), "invalid("); e++ {
		all = append(all, e.String())
	}
	return all
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
		r.markFaulty(v) // so that no error is reported about the list as a whole
	}
	return list, ok
}

// OneOf returns the read function of a key whose value is one of a few words; set is
// told which.
func OneOf[T any](words []string, set func(*T, int)) func(*Reader, *Value, *T) {
	expected := "one of " + strings.Join(words, ", ")
	return func(r *Reader, v *Value, into *T) {
		if !r.Want(v, KindString, expected) {
			return
		}
		i := slices.Index(words, v.Text)
		if i < 0 {
			r.Fail(v, DidYouMean(suggest.Nearest(v.Text, words)), "%s is %s, expected %s", r.Label(v),
				spec.Quote(v.Text), expected)
			return
		}
		set(into, i)
	}
}

// Strings reads a string or an array of them.
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

// DidYouMean returns the hint that a word was meant; "" for none.
func DidYouMean(word string) string {
	if word == "" {
		return ""
	}
	return "did you mean " + spec.Quote(word) + "?"
}

// DidYouMeanOneOf returns the hint that the word nearest to text was meant; "" if none is near.
func DidYouMeanOneOf(text string, words ...string) string {
	if near := suggest.Nearest(text, words); near != "" {
		return "did you mean " + spec.Quote(near) + "?"
	}
	return ""
}
