package candidate

import (
	"iter"
	"strings"
)

// State says how well a Value can be read.
type State uint8

const (
	Valid      State = iota // valid JSON
	Repairable              // valid JSON once Repair has changed what models often get wrong
	CutOff                  // the section ends within it
	Broken                  // anything else
)

// Value is a range of a text that is an object or array, or looks like one. The only value of a
// section that is JSON as a whole may be of any type.
type Value struct {
	Start int // offset of its first byte
	End   int // offset after it; if it cannot be read, the offset at which the search continues
	State State
	Fault int  // offset of the first fault; -1 if it is valid
	Begun bool // the colon of a first key or the comma after a first element was read

	text  string
	edits []edit // in their order
}

// edit replaces a range of a text.
type edit struct {
	start, end int
	by         string
}

// Values returns the outermost values of a section in their order. Brackets without quotes or
// nested brackets, such as [p. 7] or {name}, are prose unless they are JSON. Other brackets that
// cannot be read are values that are CutOff or Broken, and values within them are parts that must
// not be taken for a whole, with one exception: a "[" without a comma or "{" before its fault is
// likely to be prose, so the values after it are found as well.
func (p Part) Values() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if p.JSON {
			yield(Value{Start: p.Start, End: p.End, Fault: -1, text: p.text})
			return
		}
		for at := p.Start; at < p.End; {
			i := strings.IndexAny(p.text[at:p.End], "{[")
			if i < 0 {
				return
			}
			v := scan(p.text, at+i, p.End)
			if v.State == Broken || v.State == CutOff && !v.Begun {
				if end := proseEnd(p.text, v.Start, p.End); end > 0 {
					at = end
					continue
				}
			}
			if !yield(v) {
				return
			}
			at = v.End
		}
	}
}

// proseEnd returns the offset after a bracket that encloses neither quotes nor brackets, and 0 for
// other brackets.
func proseEnd(text string, at, end int) int {
	j := strings.IndexAny(text[at+1:end], `{}[]"`)
	if j < 0 {
		return end
	}
	if closing := at + 1 + j; text[closing] == closer(text[at]) {
		return closing + 1
	}
	return 0
}

func closer(open byte) byte {
	if open == '{' {
		return '}'
	}
	return ']'
}

// Text returns the JSON text of a value. If the value is Repairable, commas before closing brackets
// and comments are removed, and line breaks and tabs in strings are escaped. Nothing else is
// changed: a repair that has to guess, such as closing a value that was cut off, could silently
// lose a part of the answer. The text of other values may be anything.
func (v Value) Text() string {
	if v.State != Repairable {
		return v.text[v.Start:v.End]
	}
	var b strings.Builder
	at := v.Start
	for _, e := range v.edits {
		b.WriteString(v.text[at:e.start])
		b.WriteString(e.by)
		at = e.end
	}
	b.WriteString(v.text[at:v.End])
	return b.String()
}

// Children returns the objects and arrays that are direct elements of a Valid value. A value of
// another state has none.
func (v Value) Children() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.State != Valid {
			return
		}
		depth, start := 0, 0
		for at := v.Start; at < v.End; at++ {
			switch v.text[at] {
			case '"':
				for at++; v.text[at] != '"'; at++ {
					if v.text[at] == '\\' {
						at++
					}
				}
			case '{', '[':
				if depth++; depth == 2 {
					start = at
				}
			case '}', ']':
				if depth--; depth == 1 && !yield(Value{Start: start, End: at + 1, Fault: -1, text: v.text}) {
					return
				}
			}
		}
	}
}
