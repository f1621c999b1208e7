package candidate

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxDepth is the nesting that encoding/json accepts.
const maxDepth = 10_000

// scanner reads one value: JSON, and also what Value.Text repairs.
type scanner struct {
	text    string
	at, end int
	open    []int  // offsets of the brackets that are open
	edits   []edit // repairs
	begun   bool
	object  bool // an object is open, or was read
	comment int  // offset after the last comment before begun
}

// scan reads the value that starts at an opening bracket.
func scan(text string, at, end int) Value {
	s := scanner{text: text, at: at, end: end}
	ok := s.read()
	v := Value{Start: at, End: s.at, Fault: -1, Begun: s.begun, text: text, edits: s.edits}
	switch {
	case !ok:
		v.Fault, v.State = s.at, Broken
		if s.at == end {
			v.State = CutOff
		}
		v.End = s.resume()
	case len(s.edits) > 0:
		slices.SortFunc(s.edits, func(a, b edit) int { return a.start - b.start })
		v.Fault, v.State = s.edits[0].start, Repairable
	}
	return v
}

// resume returns the offset at which the search for other values continues after a fault. Either
// all that was read is skipped, with what may belong to it, or at most two tokens are read again,
// so that no text takes more than linear time.
func (s *scanner) resume() int {
	if !s.begun && !s.object {
		return max(s.open[len(s.open)-1]+1, s.comment)
	}
	depth := len(s.open)
	for at := s.at; at < s.end; at++ {
		switch s.text[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return s.end
}

// expectation is the grammar's next symbol.
type expectation uint8

const (
	anElement expectation = iota
	aKey
	aColon
	aComma
)

// read reports whether there is a value. If not, s.at is the offset of the fault.
func (s *scanner) read() bool {
	expect := s.push()
	comma := -1 // offset of a comma after which nothing has come yet
	for {
		if !s.space() || s.at == s.end {
			return false
		}
		c, top := s.text[s.at], s.text[s.open[len(s.open)-1]]
		closes := c == closer(top)
		switch {
		case closes && (expect == aComma || expect == aKey || expect == anElement && top == '['):
			if comma >= 0 && expect != aComma {
				s.edits = append(s.edits, edit{comma, comma + 1, ""})
			}
			comma = -1
			s.at++
			if s.open = s.open[:len(s.open)-1]; len(s.open) == 0 {
				return true
			}
			expect = aComma
		case expect == aComma && c == ',':
			comma, s.begun = s.at, true
			s.at++
			if expect = anElement; top == '{' {
				expect = aKey
			}
		case expect == aKey && c == '"':
			if !s.string() {
				return false
			}
			expect = aColon
		case expect == aColon && c == ':':
			comma, s.begun = -1, true
			s.at++
			expect = anElement
		case expect == anElement && (c == '{' || c == '['):
			if len(s.open) == maxDepth {
				return false
			}
			comma, expect = -1, s.push()
		case expect == anElement && c == '"' && s.string(), expect == anElement && c != '"' && s.scalar():
			expect = aComma
		default:
			return false
		}
	}
}

// push opens the bracket at s.at and returns what comes next.
func (s *scanner) push() expectation {
	s.open = append(s.open, s.at)
	s.at++
	if s.text[s.at-1] == '{' {
		s.object = true
		return aKey
	}
	return anElement
}

// space skips white space and comments. It returns false if a comment has no end.
func (s *scanner) space() bool {
	for s.at < s.end {
		rest := s.text[s.at:s.end]
		terminator := "\n"
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			s.at++
			continue
		case strings.HasPrefix(rest, "/*"):
			terminator = "*/"
		case !strings.HasPrefix(rest, "//"):
			return true
		}
		length := strings.Index(rest[2:], terminator)
		if length < 0 {
			s.at = s.end
			s.comment = s.end
			return false
		}
		length += 2 + len(terminator)
		s.edits = append(s.edits, edit{s.at, s.at + length, " "})
		s.at += length
		if !s.begun {
			s.comment = s.at
		}
	}
	return true
}

// string reads a string. It returns false, with s.at at the fault, if there is none.
func (s *scanner) string() bool {
	for s.at++; s.at < s.end; s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c == '\n':
			s.edits = append(s.edits, edit{s.at, s.at + 1, `\n`})
		case c == '\r':
			s.edits = append(s.edits, edit{s.at, s.at + 1, `\r`})
		case c == '\t':
			s.edits = append(s.edits, edit{s.at, s.at + 1, `\t`})
		case c < ' ':
			return false
		}
	}
	return false
}

// escape reads an escape sequence up to its last byte. It returns false, with s.at unchanged, if
// there is none, and with s.at at the end if the text ends within it.
func (s *scanner) escape() bool {
	length := 2
	rest := s.text[s.at:s.end]
	if strings.HasPrefix(rest, `\u`) {
		length = 6
	}
	if len(rest) < length {
		s.at = s.end
		return false
	}
	if !json.Valid([]byte(`"` + rest[:length] + `"`)) {
		return false
	}
	s.at += length - 1
	return true
}

// scalar reads a number, true, false or null. It returns false if there is none.
func (s *scanner) scalar() bool {
	rest := s.text[s.at:s.end]
	length := 0
	for length < len(rest) && (rest[length] == '-' || rest[length] == '+' || rest[length] == '.' ||
		'0' <= rest[length] && rest[length] <= '9' || 'a' <= rest[length]|0x20 && rest[length]|0x20 <= 'z') {
		length++
	}
	if length > 0 && length == len(rest) { // it may go on
		s.at = s.end
		return false
	}
	if length == 0 || !json.Valid([]byte(rest[:length])) {
		return false
	}
	s.at += length
	return true
}
