package config

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

// text is the read function of a key whose value is a string that is not empty.
func text[T any](field func(*T) *string) func(*reader, *value, *T) {
	return func(r *reader, v *value, into *T) {
		if s, ok := r.text(v, "a string"); ok {
			*field(into) = s
		}
	}
}

func (r *reader) text(v *value, expected string) (string, bool) {
	if !r.want(v, isString, expected) {
		return "", false
	}
	if strings.TrimSpace(v.text) == "" {
		r.fail(v.at, v, "remove the key if nothing is meant", "%s is empty, expected %s", r.label(v), expected)
		return "", false
	}
	return v.text, true
}

// flag is the read function of a key whose value is true or false.
func flag[T any](field func(*T) *bool) func(*reader, *value, *T) {
	return func(r *reader, v *value, into *T) {
		if v.kind == isString && (v.text == "true" || v.text == "false") {
			r.fail(v.at, v, "write "+v.text+" without quotes", "%s is a string, expected true or false", r.label(v))
		} else if r.want(v, isBool, "true or false") {
			*field(into) = v.text == "true"
		}
	}
}

// duration is the read function of a key whose value is a time above zero.
func duration[T any](field func(*T) *time.Duration) func(*reader, *value, *T) {
	return func(r *reader, v *value, into *T) {
		if d, ok := r.duration(v); ok {
			*field(into) = d
		}
	}
}

// Types of durations in the words of a row, beside the plain one.
const (
	durationOrZeroType  = `duration or "0s"`
	durationOrNeverType = `duration or "never"`
)

const durationType = `a duration such as "10s" or "1h30m"`

// duration reads a time above zero.
func (r *reader) duration(v *value) (time.Duration, bool) {
	d, ok := r.durationOrZero(v)
	if ok && d == 0 {
		r.fail(v.at, v, "", "%s is %s, expected a duration above zero", r.label(v), spec.Quote(v.text))
		return 0, false
	}
	return d, ok
}

func (r *reader) durationOrZero(v *value) (time.Duration, bool) {
	if v.kind == isInteger || v.kind == isFloat {
		r.fail(v.at, v, secondsMeant(v),
			"%s is a number without a unit, expected %s", r.label(v), durationType)
		return 0, false
	}
	if !r.want(v, isString, durationType) {
		return 0, false
	}
	d, err := timespan.Parse(v.text)
	switch _, notNumber := strconv.ParseFloat(v.text, 64); {
	case err != nil && notNumber == nil:
		r.fail(v.at, v, secondsMeant(v),
			"%s is %s, a number without a unit, expected %s", r.label(v), spec.Quote(v.text), durationType)
	case err != nil:
		r.fail(v.at, v, "the units are "+timespan.Units, "%s is %s, expected %s", r.label(v), spec.Quote(v.text),
			durationType)
	case strings.HasPrefix(v.text, "-"):
		r.fail(v.at, v, "", "%s is %s, negative, expected %s", r.label(v), spec.Quote(v.text), durationType)
	default:
		return d, true
	}
	return 0, false
}

func secondsMeant(v *value) string {
	return "write " + spec.Quote(v.text+"s") + " if seconds are meant"
}

// whole reads a time above zero that is written as a number of units.
func (r *reader) whole(v *value, unit time.Duration, name string) (time.Duration, bool) {
	longest := int64(100 * 365 * 24 * time.Hour / unit) // a century, and no overflow
	n, ok := r.integer(v, 1, longest, "an integer of at least 1, in "+name)
	return time.Duration(n) * unit, ok
}

// integer reads a number between low and high.
func (r *reader) integer(v *value, low, high int64, expected string) (int64, bool) {
	if !r.want(v, isInteger, expected) {
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 0, 64)
	if err != nil || n < low || n > high {
		r.fail(v.at, v, "", "%s is %s, expected %s", r.label(v), v.text, expected)
		return 0, false
	}
	return n, true
}

// word is the read function of a key whose value is one of a few words, or of
// the other spellings that parse takes. meant gives the hint for words that neither
// knows; where it is empty, the hint is the nearest word.
func word[T any, E interface {
	~uint8
	String() string
}](parse func(string) (E, error), field func(*T) *E, meant ...func(string) string) func(*reader, *value, *T) {
	return func(r *reader, v *value, into *T) {
		expected := "one of " + strings.Join(words[E](), ", ")
		if !r.want(v, isString, expected) {
			return
		}
		e, err := parse(v.text)
		if err != nil {
			hint := didYouMean(suggest.Nearest(v.text, words[E]()))
			for _, other := range meant {
				hint = cmp.Or(other(v.text), hint)
			}
			r.fail(v.at, v, hint, "%s is %s, expected %s", r.label(v), spec.Quote(v.text), expected)
			return
		}
		*field(into) = e
	}
}

// words are the names of all values of an enumeration of package supervisor.
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

// list reads an array of strings.
func (r *reader) list(v *value, expected string) ([]string, bool) {
	if !r.want(v, isArray, expected) {
		return nil, false
	}
	list, ok := make([]string, 0, len(v.elements)), true
	for _, e := range v.elements {
		ok = r.want(e, isString, "a string") && ok
		list = append(list, e.text)
	}
	if !ok {
		r.markFaulty(v) // so that nobody complains of the list as a whole
	}
	return list, ok
}

// oneOf is the read function of a key whose value is one of a few words; set is
// told which.
func oneOf[T any](words []string, set func(*T, int)) func(*reader, *value, *T) {
	expected := "one of " + strings.Join(words, ", ")
	return func(r *reader, v *value, into *T) {
		if !r.want(v, isString, expected) {
			return
		}
		i := slices.Index(words, v.text)
		if i < 0 {
			r.fail(v.at, v, didYouMean(suggest.Nearest(v.text, words)), "%s is %s, expected %s", r.label(v),
				spec.Quote(v.text), expected)
			return
		}
		set(into, i)
	}
}

// strings reads a string or an array of them.
func (r *reader) strings(v *value, expected string) []*value {
	if v.kind != isArray {
		if _, ok := r.text(v, expected); ok {
			return []*value{v}
		}
		return nil
	}
	var all []*value
	for _, e := range v.elements {
		if _, ok := r.text(e, expected); ok {
			all = append(all, e)
		}
	}
	if len(v.elements) == 0 {
		r.fail(v.at, v, "", "%s is empty, expected %s", r.label(v), expected)
	}
	return all
}

func didYouMean(word string) string {
	if word == "" {
		return ""
	}
	return "did you mean " + spec.Quote(word) + "?"
}

func meantOneOf(text string, words ...string) string {
	if near := suggest.Nearest(text, words); near != "" {
		return "did you mean " + spec.Quote(near) + "?"
	}
	return ""
}
