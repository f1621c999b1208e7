package proc

import (
	"bytes"
	"sync"
	"unicode/utf8"
)

// splitter splits a byte stream into lines, all lines of a read at once. It has a large buffer only
// while there is something to read, so that a stream at rest needs hardly any memory.
type splitter struct {
	buf   *[readSize]byte // nil at rest
	held  int             // bytes in buf that were read and not emitted: a line without its end
	rest  []byte          // these bytes at rest
	first [firstRead]byte // for the first read after a rest
}

const (
	readSize = 128 << 10 // bytes; more than MaxLine, so that there is always space for a read
	maxRest  = 4 << 10   // bytes; with a longer line, the buffer is kept

	firstRead = 256 // bytes; of the first read after a rest, which often finds nothing or one line
)

// buffers has those that no splitter uses.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// space returns the buffer for the next read; it is never empty.
func (s *splitter) space() []byte {
	if s.buf == nil {
		s.buf = buffers.Get().(*[readSize]byte)
		s.held = copy(s.buf[:], s.rest)
	}
	return s.buf[s.held:]
}

// read reads with a function that works like syscall.Read. The result of read is in space. At rest
// it takes a buffer only if there is something to read.
func (s *splitter) read(from func([]byte) (int, error)) (n int, err error) {
	if s.buf != nil {
		return from(s.space())
	}
	if n, err = from(s.first[:]); n <= 0 {
		return n, err
	}
	n = copy(s.space(), s.first[:n])
	if n == len(s.first) {
		more, _ := from(s.space()[n:]) // an error comes again with the next read
		n += max(0, more)
	}
	return n, err
}

// pause gives the buffer back until there is more to read.
func (s *splitter) pause() {
	if s.buf != nil && s.held <= maxRest {
		s.rest = append(s.rest[:0], s.buf[:s.held]...)
		s.drop()
	}
}

func (s *splitter) drop() {
	buffers.Put(s.buf)
	s.buf = nil
}

// unfinished returns what was read of a line without its end. It is valid until the next call.
func (s *splitter) unfinished() []byte {
	if s.buf == nil {
		return s.rest
	}
	return s.buf[:s.held]
}

// consume handles n bytes that were read into space. It emits complete lines with their ends, or
// a part of a line that is too long without one. The text is valid until the next call.
func (s *splitter) consume(n int, emit func(text []byte, more bool)) {
	b, scanned := s.buf[:s.held+n], s.held
	start, end := 0, 0 // complete lines that were not emitted
	for {
		next := b[end:min(len(b), end+MaxLine+1)]
		known := min(len(next), max(0, scanned-end)) // has no newline
		if i := lastNewline(next[known:]); i >= 0 {
			end += known + i + 1
			continue
		}
		if start < end {
			emit(unixLines(b[start:end]), false)
			start = end
		}
		if len(next) <= MaxLine {
			break
		}
		end += wholeRunes(next[:MaxLine])
		emit(valid(b[start:end]), true)
		start = end
	}
	s.held = copy(s.buf[:], b[start:])
}

// finish emits what is left at the end of the stream, as a line.
func (s *splitter) finish(emit func(text []byte, more bool)) {
	if text := s.unfinished(); len(text) > 0 {
		emit(append(bytes.Clone(valid(text)), '\n'), false)
	}
	if s.rest, s.held = nil, 0; s.buf != nil {
		s.drop()
	}
}

// lastNewline returns the index of the last newline, or -1. Unlike bytes.LastIndexByte it is fast
// where there is none.
func lastNewline(b []byte) int {
	const step = 1 << 10
	for len(b) > step {
		from := len(b) - step
		if bytes.IndexByte(b[from:], '\n') >= 0 {
			return from + bytes.LastIndexByte(b[from:], '\n')
		}
		b = b[:from]
	}
	return bytes.LastIndexByte(b, '\n')
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
