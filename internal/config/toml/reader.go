package toml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Reader reads values and collects errors and notices.
type Reader struct {
	Source  *Source
	errs    findings
	notices findings
	faulty  map[Spot]bool // places with errors
	known   []Section     // all tables, to find the one that an unknown key belongs to
	page    string        // the page that documents all keys
}

// findings are errors or notices, at most MaxErrors of them.
type findings struct {
	all     Errors
	dropped int // number of findings beyond MaxErrors
}

// add adds a finding and returns it, or returns an equal one that is in the list already:
// some files are read several times. It returns nil if the list is full.
func (f *findings) add(e *Error) *Error {
	if len(f.all) >= MaxErrors {
		f.dropped++
		return nil
	}
	for _, other := range f.all {
		if other.Message == e.Message && other.File == e.File && other.Line == e.Line && other.Column == e.Column {
			return other
		}
	}
	f.all = append(f.all, e)
	return e
}

// sorted returns the findings sorted by place, and one more for those that were dropped.
func (f *findings) sorted(dropped, hint string) Errors {
	slices.SortStableFunc(f.all, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if f.dropped == 0 {
		return f.all
	}
	last := *f.all[len(f.all)-1]
	last.Key, last.Message, last.Hint = "", fmt.Sprintf(dropped, f.dropped), hint
	return append(f.all, &last)
}

// Spot is a position in a file, as a key of maps.
type Spot struct {
	src *Source
	at  int
}

// MaxErrors is the number of errors that are reported in full.
const MaxErrors = 200

// markFaulty records that v is faulty, which suppresses further errors at its place.
func (r *Reader) markFaulty(v *Value) { r.faulty[Spot{v.Source, v.At}] = true }

// IsFaulty reports whether there is an error at the place of v.
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
func (r *Reader) Count() int { return len(r.errs.all) }

// Add adds an error that already has a place.
func (r *Reader) Add(err *Error) { r.errs.add(err) }

// AddLast adds the errors of a file that v names. They sort after the errors of all other
// files.
func (r *Reader) AddLast(v *Value, errs Errors) {
	r.markFaulty(v)
	for _, e := range errs {
		e.order = lastFile + v.At
		r.Add(e)
	}
}

// lastFile is larger than the order of any file.
const lastFile = 1 << 20

// Errors returns all errors, sorted by place.
func (r *Reader) Errors() Errors {
	return r.errs.sorted("%d more errors, expected none", "fix those above first")
}

// Want reports whether v is of kind k, and adds an error if not. expected describes the value.
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

// Label returns the name of v in messages: its key, or "an element of KEY".
func (r *Reader) Label(v *Value) string {
	if v.Parent != nil && v.Parent.Kind == KindArray {
		return "an element of " + BareKey(v.Parent.Name)
	}
	return BareKey(v.Name)
}

// Notice adds a notice and returns it; nil if there are too many.
func (r *Reader) Notice(v *Value, format string, args ...any) *Notice {
	return (*Notice)(r.notices.add(v.Source.ErrorAt(v.Key, v.path(), "", fmt.Sprintf(format, args...))))
}

// SortedNotices returns all notices, sorted by place.
func (r *Reader) SortedNotices() (notices []*Notice) {
	for _, e := range r.notices.sorted("%d more notices", "") {
		notices = append(notices, (*Notice)(e))
	}
	return notices
}

// AddNotice adds a notice that already has a place.
func (r *Reader) AddNotice(n *Error) { r.notices.add(n) }

// Open parses data and returns a reader for it. known are the sections of the file.
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
