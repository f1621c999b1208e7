package toml

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Reader reads values and collects what is wrong with them.
type Reader struct {
	Source  *Source
	Errs    Errors
	more    int           // errors beyond maxErrors
	notices []*Notice     // what is said in vain
	unsaid  int           // notices beyond maxErrors
	faulty  map[Spot]bool // places of errs
	known   []Section     // all tables, to find out where an unknown key belongs
	page    string        // which documents all keys
}

// Spot is a place in a file.
type Spot struct {
	src *Source
	at  int
}

// MaxErrors is the number of errors that are reported in full.
const MaxErrors = 200

// markFaulty notes that something at the place of v is wrong, so that no further error is
// reported there.
func (r *Reader) markFaulty(v *Value) { r.faulty[Spot{v.Source, v.At}] = true }

// IsFaulty reports whether an error at the place of v was found.
func (r *Reader) IsFaulty(v *Value) bool { return r.faulty[Spot{v.Source, v.At}] }

// Fail adds an error at the place of a value.
func (r *Reader) Fail(v *Value, hint, format string, args ...any) {
	r.FailAt(v.At, v, hint, format, args...)
}

// FailKey adds an error at the key of a value.
func (r *Reader) FailKey(v *Value, hint, format string, args ...any) {
	r.FailAt(v.Key, v, hint, format, args...)
}

// FailAt adds an error about a value at an offset of its file.
func (r *Reader) FailAt(at int, v *Value, hint, format string, args ...any) {
	r.faulty[Spot{v.Source, at}] = true
	r.Add(v.Source.ErrorAt(at, v.path(), hint, fmt.Sprintf(format, args...)))
}

// Count returns the number of errors.
func (r *Reader) Count() int { return len(r.Errs) }

// Add adds an error that has its place.
func (r *Reader) Add(err *Error) {
	if len(r.Errs) >= MaxErrors {
		r.more++
		return
	}
	for _, other := range r.Errs { // of a file that is read for several places
		if other.Message == err.Message && other.at(err.File, err.Line, err.Column) {
			return
		}
	}
	r.Errs = append(r.Errs, err)
}

// AddLast adds the errors of a file that v names, after those of all files that were read
// together.
func (r *Reader) AddLast(v *Value, errs Errors) {
	r.markFaulty(v)
	for _, e := range errs {
		e.order = lastFile + v.At
		r.Add(e)
	}
}

// lastFile is greater than the order of any file.
const lastFile = 1 << 20

// Errors returns all that were found, sorted by place.
func (r *Reader) Errors() Errors {
	r.Errs.sort()
	if r.more > 0 {
		last := *r.Errs[len(r.Errs)-1]
		last.Key, last.Message, last.Hint = "", fmt.Sprintf("%d more errors, expected none", r.more),
			"mend those above first"
		r.Errs = append(r.Errs, &last)
	}
	return r.Errs
}

// Want fails unless v is of kind k. Expected is what the key takes, in words.
func (r *Reader) Want(v *Value, k Kind, expected string) bool {
	if v.Kind != k {
		hint := ""
		if strings.HasPrefix(expected, "a string") && v.Kind != KindTable && v.Kind != KindArray {
			hint = "write " + spec.Quote(v.Text)
		}
		r.Fail(v, hint, "%s is %v, expected %s", r.Label(v), v.Kind, expected)
	}
	return v.Kind == k
}

// Label returns what a message calls v: its key, with the table for an element.
func (r *Reader) Label(v *Value) string {
	if v.Parent != nil && v.Parent.Kind == KindArray {
		return "an element of " + BareKey(v.Parent.Name)
	}
	return BareKey(v.Name)
}

// Notice adds a notice, and returns it; nil if there are too many.
func (r *Reader) Notice(v *Value, format string, args ...any) *Notice {
	if len(r.notices) >= MaxErrors {
		r.unsaid++
		return nil
	}
	n := (*Notice)(v.Source.ErrorAt(v.Key, v.path(), "", fmt.Sprintf(format, args...)))
	for _, other := range r.notices { // of a file that is read for several places
		if other.Message == n.Message && (*Error)(other).at(n.File, n.Line, n.Column) {
			return other
		}
	}
	r.notices = append(r.notices, n)
	return n
}

// SortedNotices returns all notices, sorted by place.
func (r *Reader) SortedNotices() []*Notice {
	slices.SortStableFunc(r.notices, func(a, b *Notice) int { return (*Error)(a).compare((*Error)(b)) })
	if r.unsaid > 0 {
		last := *r.notices[len(r.notices)-1]
		last.Key, last.Message, last.Hint = "", fmt.Sprintf("%d more notices", r.unsaid), ""
		r.notices = append(r.notices, &last)
	}
	return r.notices
}

// AddNotice adds a notice that has its place.
func (r *Reader) AddNotice(n *Notice) { r.notices = append(r.notices, n) }

// Open parses data, for a reader that knows the sections of the file.
func Open(name string, data []byte, a Advice, known []Section) (*Reader, *Value, error) {
	if len(data) > MaxFile {
		return nil, nil, Errors{tooLarge(name, int64(len(data)), a)}
	}
	src := NewSource(name, data)
	document, err := Parse(src)
	if err != nil {
		return nil, nil, Errors{err}
	}
	return &Reader{Source: src, faulty: map[Spot]bool{}, known: known, page: a.Page}, document, nil
}
