package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

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

// markFaulty notes that something at the place of v is wrong, so that no further error is
// reported there.
func (r *reader) markFaulty(v *value) { r.faulty[spot{v.src, v.at}] = true }

// isFaulty reports whether an error at the place of v was found.
func (r *reader) isFaulty(v *value) bool { return r.faulty[spot{v.src, v.at}] }

// Fail adds an error.
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

// notice adds a notice, and returns it; nil if there are too many.
func (r *reader) notice(v *value, format string, args ...any) *Notice {
	if len(r.notices) >= maxErrors {
		r.unsaid++
		return nil
	}
	n := (*Notice)(v.src.errorAt(v.key, v.path(), "", fmt.Sprintf(format, args...)))
	for _, other := range r.notices { // of a file that is read for several places
		if other.Message == n.Message && (*Error)(other).at(n.File, n.Line, n.Column) {
			return other
		}
	}
	r.notices = append(r.notices, n)
	return n
}

func (r *reader) sortNotices() {
	slices.SortStableFunc(r.notices, func(a, b *Notice) int { return (*Error)(a).compare((*Error)(b)) })
	if r.unsaid > 0 {
		last := *r.notices[len(r.notices)-1]
		last.Key, last.Message, last.Hint = "", fmt.Sprintf("%d more notices", r.unsaid), ""
		r.notices = append(r.notices, &last)
	}
}
