package proc

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// splitter cuts a byte stream into lines in a buffer that grows from
// smallBuffer to what MaxLine needs, and no further: an agent that is silent
// or writes short lines costs little, one that never ends a line no more.
type splitter struct {
	buf []byte // what was read and not passed on
}

const smallBuffer = 4 << 10

// space is where the next read goes; never empty.
func (s *splitter) space() []byte {
	if len(s.buf) == cap(s.buf) {
		grown := make([]byte, len(s.buf), min(max(smallBuffer, 2*cap(s.buf)), MaxLine+1))
		copy(grown, s.buf)
		s.buf = grown
	}
	return s.buf[len(s.buf):cap(s.buf)]
}

// took says that n bytes were read into space, and emits what is complete.
func (s *splitter) took(n int, emit func(text string, more bool)) {
	scanned := len(s.buf)
	s.buf = s.buf[:scanned+n]
	start, short := 0, true
	for {
		i := bytes.IndexByte(s.buf[scanned:], '\n')
		if i < 0 {
			break
		}
		end := scanned + i
		short = short && end-start < smallBuffer
		emit(text(bytes.TrimSuffix(s.buf[start:end], []byte("\r"))), false)
		start, scanned = end+1, end+1
	}
	if len(s.buf)-start > MaxLine { // the buffer is full and has no line end
		cut := wholeRunes(s.buf[:MaxLine])
		emit(text(s.buf[:cut]), true)
		start, short = cut, false
	}
	s.buf = s.buf[:copy(s.buf, s.buf[start:])]
	if short && len(s.buf) == 0 && cap(s.buf) > smallBuffer {
		s.buf = nil
	}
}

// rest emits what is left at the end of the stream.
func (s *splitter) rest(emit func(text string, more bool)) {
	if len(s.buf) > 0 {
		emit(text(s.buf), false)
	}
	s.buf = nil
}

func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// wholeRunes is the length of b without a character that is cut off at its end.
func wholeRunes[T ~string | ~[]byte](b T) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRuneInString(string(b[i:])) && i > 0 {
				return i
			}
			break
		}
	}
	return len(b)
}
