package agentcli

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// objects splits output into JSON objects as it is written: one in a line, or one in several lines.
// Other text is ignored. The zero value is ready to use.
type objects struct {
	line  []byte // the line that has not ended yet
	skip  bool   // the rest of the line is skipped, since it is too long
	block []byte // the lines so far of an object with several lines
	depth int    // the number of open braces in block
}

// maxObject bounds an object, in bytes; a longer one is ignored.
const maxObject = 16 << 20

// write splits more output, and calls each for every whole object.
func (s *objects) write(p []byte, each func([]byte)) {
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		if !s.skip {
			s.line = append(s.line, part...)
			s.skip = len(s.line) > maxObject
		}
		if !ended {
			break
		}
		if s.skip {
			s.drop()
		} else {
			s.read(s.line, each)
		}
		s.line, s.skip = s.line[:0], false
		p = rest
	}
	if cap(s.line) > maxObject/4 && len(s.line) == 0 {
		s.line = nil
	}
}

// close ends the last line.
func (s *objects) close(each func([]byte)) {
	if !s.skip {
		s.read(s.line, each)
	}
	s.line, s.skip = nil, false
	s.drop()
}

// read parses a line: an object, a part of one, or other text.
func (s *objects) read(line []byte, each func([]byte)) {
	opens := bytes.HasPrefix(line, []byte("{"))
	if s.depth == 0 {
		line = bytes.TrimSpace(line)
		opens = bytes.HasPrefix(line, []byte("{"))
	}
	if !opens && s.depth == 0 {
		return
	}
	if opens {
		s.drop() // the object before never ended: its lines would be indented
	}
	depth, whole := countBraces(line)
	switch {
	case !whole: // the line ends in a string
		s.drop()
	case opens && depth == 0:
		each(line)
	default:
		s.block = append(append(s.block, line...), '\n')
		s.depth += depth
		if s.depth < 0 || len(s.block) > maxObject {
			s.drop()
		} else if s.depth == 0 {
			each(s.block)
			s.drop()
		}
	}
}

func (s *objects) drop() { s.block, s.depth = nil, 0 }

// countBraces returns the number of braces that a line leaves open. whole is false if the line ends
// in a string, which no line of JSON does.
func countBraces(line []byte) (depth int, whole bool) {
	inString := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			depth++
		case c == '}':
			depth--
		}
	}
	return depth, !inString
}

// decode parses an object into v. A field of an unexpected type is ignored.
func decode(object []byte, v any) bool {
	err := json.Unmarshal(object, v)
	_, typed := errors.AsType[*json.UnmarshalTypeError](err)
	return err == nil || typed
}

// stamp is a time in RFC 3339; anything else is no time.
type stamp struct{ time.Time }

func (s *stamp) UnmarshalJSON(text []byte) error {
	var t time.Time
	if t.UnmarshalJSON(text) == nil {
		s.Time = t
	}
	return nil
}

// seconds is a time as seconds since 1970; anything else is no time.
type seconds struct{ time.Time }

func (s *seconds) UnmarshalJSON(text []byte) error {
	var n int64
	if json.Unmarshal(text, &n) == nil && n > 0 && n < 1<<36 {
		s.Time = time.Unix(n, 0)
	}
	return nil
}
