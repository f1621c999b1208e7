package proc

import (
	"bytes"
	"unicode/utf8"
)

// splitter splits a byte stream into lines, all lines of a read at once. Its buffer grows from
// smallBuffer to what MaxLine needs. So an agent that writes little needs little memory, and
// much output is read in large pieces.
type splitter struct {
	buf    []byte // read, and not emitted
	filled bool   // the last read has filled the buffer
	small  int    // number of last reads that fit into a small buffer
}

const (
	smallBuffer = 4 << 10
	shrinkAfter = 8 // small reads
)

// space returns the buffer for the next read; it is never empty.
func (s *splitter) space() []byte {
	if len(s.buf) == cap(s.buf) || s.filled && cap(s.buf) <= MaxLine {
		grown := make([]byte, len(s.buf), min(max(smallBuffer, 2*cap(s.buf)), MaxLine+1))
		copy(grown, s.buf)
		s.buf = grown
	}
	s.filled = false
	return s.buf[len(s.buf):cap(s.buf)]
}

// consume handles n bytes that were read into space. It emits complete lines with their ends, or
// a part of a line that is too long without one. The text is valid until the next call.
func (s *splitter) consume(n int, emit func(text []byte, more bool)) {
	scanned := len(s.buf)
	s.buf = s.buf[:scanned+n]
	s.filled = len(s.buf) == cap(s.buf)
	start := 0
	if i := bytes.LastIndexByte(s.buf[scanned:], '\n'); i >= 0 {
		start = scanned + i + 1
		emit(unixLines(s.buf[:start]), false)
	}
	if len(s.buf)-start > MaxLine { // the buffer is full and has no newline
		cut := wholeRunes(s.buf[:MaxLine])
		emit(valid(s.buf[:cut]), true)
		start = cut
	}
	s.buf = s.buf[:copy(s.buf, s.buf[start:])]
	if s.small++; n > smallBuffer {
		s.small = 0
	}
	if s.small >= shrinkAfter && len(s.buf) == 0 && cap(s.buf) > smallBuffer {
		s.buf = nil
	}
}

// finish emits what is left at the end of the stream, as a line.
func (s *splitter) finish(emit func(text []byte, more bool)) {
	if len(s.buf) > 0 {
		emit(append(valid(s.buf), '\n'), false)
	}
	s.buf = nil
}

// unixLines replaces line ends by newlines, and makes the text valid UTF-8.
func unixLines(b []byte) []byte {
	if bytes.IndexByte(b, '\r') >= 0 {
		b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	}
	return valid(b)
}

func valid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}

// wholeRunes returns the length of b without an incomplete character at its end.
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
