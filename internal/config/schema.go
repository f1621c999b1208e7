package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// row documents a key. The same rows make the reference page, find the key
// that was meant by an unknown one, and (in key) read the value.
type row struct {
	name string
	typ  string
	def  string // the default in words, or required
	doc  string
	also []string // what others call it; only for suggestions
}

const required = "required"

// key is a row together with what reads its value into a T.
type key[T any] struct {
	row
	read func(*reader, *value, *T)
}

// table is a table of the file that is read into a T.
type table[T any] struct {
	header  string // as in the file: "[project]", "[[agent]]", "shutdown"
	doc     string
	example string
	keys    []key[T]
}

// reader reads values and collects what is wrong with them.
type reader struct {
	src     *source
	errs    Errors
	more    int           // errors beyond maxErrors
	notices []*Notice     // what is said in vain
	unsaid  int           // notices beyond maxErrors
	faulty  map[spot]bool // places of errs
	known   []section     // all tables, to find out where an unknown key belongs
	page    string        // which documents all keys
}

// spot is a place in a file.
type spot struct {
	src *source
	at  int
}

// maxErrors is how many errors are told apart; nobody reads more.
const maxErrors = 200

func (r *reader) fail(at int, v *value, hint, format string, args ...any) {
	r.faulty[spot{v.src, at}] = true
	r.add(v.src.errorAt(at, v.path(), hint, fmt.Sprintf(format, args...)))
}

// add adds an error that has its place.
func (r *reader) add(err *Error) {
	if len(r.errs) >= maxErrors {
		r.more++
		return
	}
	for _, other := range r.errs { // of a file that is read for several places
		if other.Message == err.Message && other.at(err.File, err.Line, err.Column) {
			return
		}
	}
	r.errs = append(r.errs, err)
}

// errors are all that were found, sorted by place.
func (r *reader) errors() Errors {
	r.errs.sort()
	if r.more > 0 {
		last := *r.errs[len(r.errs)-1]
		last.Key, last.Message, last.Hint = "", fmt.Sprintf("%d more errors, expected none", r.more),
			"mend those above first"
		r.errs = append(r.errs, &last)
	}
	return r.errs
}

// want fails unless v is of kind k. Expected is what the key takes, in words.
func (r *reader) want(v *value, k kind, expected string) bool {
	if v.kind != k {
		hint := ""
		if strings.HasPrefix(expected, "a string") && v.kind != isTable && v.kind != isArray {
			hint = "write " + spec.Quote(v.text)
		}
		r.fail(v.at, v, hint, "%s is %v, expected %s", r.label(v), v.kind, expected)
	}
	return v.kind == k
}

// label is what a message calls v: its key, with the table for an element.
func (r *reader) label(v *value) string {
	if v.parent != nil && v.parent.kind == isArray {
		return "an element of " + bareKey(v.parent.name)
	}
	return bareKey(v.name)
}

// read reads the table v.
func (t table[T]) read(r *reader, v *value, into *T) {
	if v.kind == isArray && strings.HasPrefix(t.header, "[") && v.parent.parent == nil {
		r.fail(v.at, v, "write "+t.header, "%s is an array, expected a table", r.label(v))
		return
	}
	if !r.want(v, isTable, "a table") {
		return
	}
	hints := map[string]bool{} // of unknown keys
	for _, field := range v.fields {
		hints[t.readField(r, field, into)] = true
	}
	for _, k := range t.keys {
		if hints[didYouMean(k.name)] && v.byName[k.name] == nil { // it is there, misspelled
			r.faulty[spot{v.src, v.at}] = true
			continue
		}
		switch {
		case k.def != required || v.byName[k.name] != nil || agentOfAidefile(t.header, k.name, v):
		case t.header == "":
			r.fail(v.at, v, "write ["+k.name+"] with its keys", "the file has no table %s, expected one", k.name)
		default:
			r.fail(v.at, v, "", "%s without %s, expected one (%s)", t.header, k.name, k.typ)
		}
	}
}

// readField reads one key. Of one that is unknown it returns the hint.
func (t table[T]) readField(r *reader, field *value, into *T) (hint string) {
	for _, k := range t.keys {
		if k.name == field.name {
			k.read(r, field, into)
			return ""
		}
	}
	rows := make([]row, len(t.keys))
	for i, k := range t.keys {
		rows[i] = k.row
	}
	where := t.header
	if where == "" {
		where = "the file"
	}
	what := "key"
	tables := field.kind == isArray && len(field.elements) > 0 && field.elements[0].kind == isTable
	if t.header == "" && (field.kind == isTable || tables) {
		what = "table"
	}
	hint = r.meant(field.name, rows)
	r.fail(field.key, field, hint, "unknown %s %s in %s", what, spec.Quote(field.name), where)
	return hint
}

// maxListed is how many keys an error lists; of tables with more it names the page.
const maxListed = 5

// meant says which key was probably meant by name where only rows are known.
func (r *reader) meant(name string, rows []row) string {
	var names []string
	for _, k := range rows {
		names = append(names, k.name)
		for _, a := range k.also {
			if strings.EqualFold(a, name) {
				return "did you mean " + strconv.Quote(k.name) + "?"
			}
		}
	}
	if n := suggest.Nearest(name, names); n != "" {
		return "did you mean " + strconv.Quote(n) + "?"
	}
	var elsewhere []string
	for _, s := range r.known {
		if s.header != "" && slices.ContainsFunc(s.rows, func(k row) bool { return k.name == name }) {
			elsewhere = append(elsewhere, s.header)
		}
	}
	if len(elsewhere) > 0 {
		return "it belongs in " + strings.Join(elsewhere, " or ")
	}
	if len(names) > maxListed && r.page != "" {
		return r.page + " lists all keys"
	}
	return "expected one of " + strings.Join(names, ", ")
}

// sub is the read function of a key whose value is a table.
func sub[T, U any](t table[U], field func(*T) *U) func(*reader, *value, *T) {
	return func(r *reader, v *value, into *T) { t.read(r, v, field(into)) }
}

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
		r.faulty[spot{v.src, v.at}] = true // so that nobody complains of the list as a whole
	}
	return list, ok
}
