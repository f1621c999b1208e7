package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// AttachProtocol is what a connection is upgraded to by POST /v1/attach. From
// then on it carries frames in both directions: a byte that says what it is,
// the length of the rest in four bytes (big endian, at most 32 KiB), the rest.
//
//	d  data: what was typed, or what the terminal shows
//	r  resize, to the daemon: rows and columns, two bytes each
//	e  end: to the daemon, nothing more is typed; from the daemon, it is over, with
//	   nothing or with a Failure as JSON
//
// Frames of other kinds are skipped.
const AttachProtocol = "coppice-attach/1"

const (
	frameData   = 'd'
	frameResize = 'r'
	frameEnd    = 'e'
)

const maxFrame = 32 << 10

// errFrame: what came is no frame.
var errFrame = errors.New("not a frame of " + AttachProtocol)

// readFrame reads one frame into buf, which it returns in part. io.EOF is the
// end between two frames.
func readFrame(r io.Reader, buf *[maxFrame]byte) (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("%w: it claims to have %d bytes, at most %d are possible", errFrame, n, maxFrame)
	}
	if _, err := io.ReadFull(r, buf[:n]); err != nil {
		return 0, nil, fmt.Errorf("frame %q: %w", head[0], io.ErrUnexpectedEOF)
	}
	return head[0], buf[:n], nil
}

// appendFrame appends a frame whose content fits.
func appendFrame(b []byte, kind byte, content []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, kind), uint32(len(content)))
	return append(b, content...)
}

// resize is the content of a resize frame.
func resize(size [2]uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, size[0]), size[1])
}

// frameWriter writes data frames and others to a connection, whole ones even
// when several goroutines do.
type frameWriter struct {
	conn    net.Conn
	timeout time.Duration

	mu  sync.Mutex
	buf []byte
}

// Write sends data.
func (w *frameWriter) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+maxFrame)]
		if err := w.frame(frameData, part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

func (w *frameWriter) frame(kind byte, content []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = appendFrame(w.buf[:0], kind, content)
	w.conn.SetWriteDeadline(time.Now().Add(w.timeout))
	_, err := w.conn.Write(w.buf)
	return err
}
