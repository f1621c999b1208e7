package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/answer/candidate"
	"github.com/coppice-dev/coppice/internal/answer/schema"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/value"
)

// Limits of a text.
const (
	MaxText     = 1 << 20  // bytes
	maxWrappers = 8        // values around an answer
	maxWork     = 32 << 20 // bytes of values that are checked, 64 more for each, times places of the schema
	maxFaults   = 3        // that are reported
)

// Find returns the answer in the text of a model, as compact JSON. It looks at the whole text, at
// fenced code blocks, and at objects and arrays in prose and within values that do not fit. A value
// is read as strictly as value.Parse does: UTF-8, no name twice, bounded depth and numbers. Values
// that are not JSON are read without commas before closing brackets and comments, and with escaped
// line breaks and tabs in strings. Other repairs would have to guess.
//
// An attempt at the answer is a value that fits, or has a property of the schema, even if it cannot
// be read. Values within an attempt are parts of it, and never the answer.
//
//   - The last attempt must fit. If it is cut off, an earlier one may be a draft or an example.
//   - If attempts that fit differ, none is returned, since each may be an example or a draft. One
//     exception: valid JSON wins over earlier values that had to be repaired.
//
// The error is an *Error.
func (s *Schema) Find(text string) (json.RawMessage, error) {
	f := finder{schema: s, text: text}
	if len(text) > MaxText {
		return nil, f.fail(TooLarge, nil, "the answer has %d bytes, at most %d are read", len(text), MaxText)
	}
	for part := range candidate.Parts(text) {
		for v := range part.Values() {
			f.look(v, 0)
		}
	}
	switch {
	case f.work > maxWork:
		return nil, f.fail(TooLarge, nil, "the answer has too many values to check them all")
	case f.found == nil && f.closest == nil:
		return nil, f.fail(NoValue, nil, "the answer has no JSON object or array")
	case f.found == nil && f.last == nil:
		return nil, f.report(f.closest)
	case f.last.err != nil:
		return nil, f.report(f.last)
	case f.other != nil:
		return nil, f.fail(Ambiguous, f.other, "and that at %s both fit, but differ: give only one",
			f.place(f.found.Start))
	}
	return json.RawMessage(f.found.json), nil
}

// finder looks at the values of a text in their order.
type finder struct {
	schema  *Schema
	text    string
	count   int // values that were looked at
	work    int
	found   *reading // fits
	other   *reading // fits, too, and differs from found
	last    *reading // the last attempt
	closest *reading // of the values that do not fit
}

// reading is a value that was looked at.
type reading struct {
	candidate.Value
	json value.Value // empty if it is not acceptable JSON
	err  error       // why it is not acceptable or does not fit, without its position
}

// look reads a value, and those in it if it is not an attempt. depth counts the values around it.
func (f *finder) look(v candidate.Value, depth int) {
	r := &reading{Value: v}
	if f.count++; v.State <= candidate.Repairable {
		f.work += (v.End - v.Start + 64) * f.schema.places
	}
	if f.work > maxWork {
		return
	}
	if f.schema.read(r); r.err == nil {
		f.last = r
		f.fits(r)
		return
	}
	if f.closest == nil || r.End-r.Start > f.closest.End-f.closest.Start {
		f.closest = r
	}
	if f.schema.isAttempt(f.text, r) {
		f.last = r
	} else if depth < maxWrappers {
		for child := range v.Children() {
			f.look(child, depth+1)
		}
	}
}

// fits compares a value that fits with the one before.
func (f *finder) fits(r *reading) {
	repaired := func(r *reading) bool { return r.State == candidate.Repairable }
	switch {
	case f.found == nil || repaired(f.found) && !repaired(r):
		f.found, f.other = r, nil
	case f.other == nil && !equal(f.found.json, r.json):
		f.other = r
	}
}

// equal reports whether two values are the same, but for the order of names.
func equal(a, b value.Value) bool { return a == b || canonical(a) == canonical(b) }

func canonical(v value.Value) string {
	d := json.NewDecoder(strings.NewReader(string(v)))
	d.UseNumber()
	var doc any
	if d.Decode(&doc) != nil {
		return string(v)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return string(v)
	}
	return string(text)
}

// Errors of values that cannot be read.
var (
	errCutOff  = errors.New("cut off")
	errNotJSON = errors.New("not JSON")
	errNoFit   = errors.New("does not fit")
)

// read checks a value. It computes neither positions nor faults, since there may be many values.
func (s *Schema) read(r *reading) {
	switch r.State {
	case candidate.CutOff:
		r.err = errCutOff
	case candidate.Broken:
		r.err = errNotJSON
	default:
		var fits bool
		if r.json, r.err = value.Parse([]byte(r.Text())); r.err == nil {
			fits, r.err = s.schema.Fits([]byte(r.json))
		}
		if r.err == nil && !fits {
			r.err = errNoFit
		}
	}
}

// isAttempt reports whether a value that does not fit looks like an answer.
func (s *Schema) isAttempt(text string, r *reading) bool {
	isList := text[r.Start] == '['
	switch {
	case isList && s.list && (r.Begun || r.State <= candidate.Repairable):
		return true
	case r.State > candidate.Repairable: // its names may be unreadable as well
		for _, name := range s.names {
			if strings.Contains(text[r.Start:r.End], name) {
				return true
			}
		}
		return false
	case isList || text[r.Start] != '{':
		return false
	}
	var object map[string]json.RawMessage
	if json.NewDecoder(bytes.NewReader([]byte(r.Text()))).Decode(&object) != nil {
		return false
	}
	for _, name := range s.names {
		if _, ok := object[name]; ok {
			return true
		}
	}
	return false
}

// place returns the position of a byte as line:column.
func (f *finder) place(at int) string {
	line, column := candidate.Position(f.text, at)
	return fmt.Sprintf("%d:%d", line, column)
}

// report returns the error of a value that does not fit.
func (f *finder) report(r *reading) *Error {
	err := r.err
	if errors.Is(err, errNoFit) {
		err = f.schema.schema.Validate([]byte(r.json))
	}
	var parse *value.Error
	var mismatch *schema.Error
	switch {
	case errors.Is(err, errCutOff):
		return f.fail(Malformed, r, "is cut off at %s", f.place(r.Fault))
	case errors.Is(err, errNotJSON):
		rest := strings.ToValidUTF8(f.text[r.Fault:min(len(f.text), r.Fault+40)], "\ufffd")
		return f.fail(Malformed, r, "is not JSON: unexpected %q at %s", plaintext.OneLine(rest, 30), f.place(r.Fault))
	case errors.As(err, &parse):
		return f.fail(Malformed, r, "is not acceptable: %s", parse.Message) // its position is that in the value
	case errors.As(err, &mismatch):
		faults := mismatch.Faults[:min(len(mismatch.Faults), maxFaults)]
		texts := make([]string, len(faults))
		for i, fault := range faults {
			texts[i] = plaintext.OneLine(fault.String(), maxReason/maxFaults-10)
		}
		e := f.fail(Mismatch, r, "does not fit: %s", strings.Join(texts, "; "))
		e.Pointer = plaintext.OneLine(faults[0].Pointer, maxReason)
		return e
	}
	return f.fail(Malformed, r, "is not acceptable: %v", err)
}

// fail returns an error about a value, or about the text if r is nil.
func (f *finder) fail(kind Kind, r *reading, format string, args ...any) *Error {
	e := &Error{Kind: kind, Reason: plaintext.OneLine(fmt.Sprintf(format, args...), maxReason),
		Expected: f.schema.expected, Candidates: f.count}
	if r != nil {
		e.Line, e.Column = candidate.Position(f.text, r.Start)
	}
	return e
}
