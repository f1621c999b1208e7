package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Line is a line of output on a connection that was opened with Listen. After the answer to that
// there are only lines, no messages, because JSON would cost more than the agent that writes
// them.
//
// A line consists of the incarnation and the time in Unix nanoseconds (8 bytes each), a byte
// with the stream and flags, the length of the text (4 bytes), and the text. Numbers are
// big-endian.
type Line struct {
	Incarnation uint64
	proc.Line
}

const (
	lineHeader = 8 + 8 + 1 + 4
	lineMore   = 1 << 7
	linePart   = 1 << 6
	// maxText allows for U+FFFD, which is three bytes long, in place of each invalid byte.
	maxText = 3 * proc.MaxLine
)

// AppendLine appends the encoding of a line. It truncates the text to what a reader accepts.
func AppendLine(b []byte, l Line) []byte {
	text := l.Text[:min(len(l.Text), maxText)]
	flags := byte(l.Stream)
	if l.More {
		flags |= lineMore
	}
	if l.Partial {
		flags |= linePart
	}
	b = binary.BigEndian.AppendUint64(b, l.Incarnation)
	b = binary.BigEndian.AppendUint64(b, uint64(l.Time.UnixNano()))
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	return append(b, text...)
}

// LineReader reads lines.
type LineReader struct {
	r   *bufio.Reader
	buf []byte
}

// NewLineReader returns a LineReader of r.
func NewLineReader(r io.Reader) *LineReader { return &LineReader{r: bufio.NewReaderSize(r, 32<<10)} }

// Read returns the next line. The error is io.EOF only between two lines.
func (r *LineReader) Read() (l Line, err error) {
	var header [lineHeader]byte
	if _, err := io.ReadFull(r.r, header[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("incomplete line of output: %w", err)
		}
		return l, err
	}
	flags, size := header[16], binary.BigEndian.Uint32(header[17:])
	l.Incarnation = binary.BigEndian.Uint64(header[:])
	l.Time = time.Unix(0, int64(binary.BigEndian.Uint64(header[8:])))
	l.Stream, l.More, l.Partial = proc.Stream(flags&^(lineMore|linePart)), flags&lineMore != 0, flags&linePart != 0
	switch {
	case l.Stream != proc.Stdout && l.Stream != proc.Stderr:
		return l, fmt.Errorf("line of output of stream %d, expected %d or %d", l.Stream, proc.Stdout, proc.Stderr)
	case size > maxText:
		return l, fmt.Errorf("line of output of %d bytes, expected at most %d", size, maxText)
	}
	if cap(r.buf) < int(size) {
		r.buf = make([]byte, size)
	}
	text := r.buf[:size]
	if _, err := io.ReadFull(r.r, text); err != nil {
		return l, fmt.Errorf("incomplete line of output: %w", io.ErrUnexpectedEOF)
	}
	if !utf8.Valid(text) {
		return l, fmt.Errorf("line of output that is not UTF-8: %.40q", text)
	}
	l.Text = string(text)
	return l, nil
}
