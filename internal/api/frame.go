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

// AttachProtocol is the protocol to which POST /v1/attach upgrades a connection. It carries frames
// in both directions: a byte for the kind, the length of the content in four bytes (big endian, at
// most 32 KiB), and the content.
//
//	d  data: input, or output of the terminal
//	r  resize: rows and columns, two bytes each; to the daemon, of the terminal of the client;
//	   from the daemon, of the terminal of the agent
//	e  end: to the daemon, the end of the input; from the daemon, the end of the
//	   connection, empty or with a Failure as JSON
//
// Frames of other kinds are skipped.
const AttachProtocol = "coppice-attach/1"

const (
	frameData   = 'd'
	frameResize = 'r'
	frameEnd    = 'e'
)

const maxFrame = 32 << 10

// errFrame is returned for data that is not a frame.
var errFrame = errors.New("not a frame of " + AttachProtocol)

// readFrame reads one frame into buf and returns a slice of it. io.EOF is the end between two
// frames.
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

// appendFrame appends a frame. The content must fit.
func appendFrame(b []byte, kind byte, content []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, kind), uint32(len(content)))
	return append(b, content...)
}

// resize returns the content of a resize frame.
func resize(size [2]uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, size[0]), size[1])
}

// frameWriter writes frames to a connection. Concurrent writes do not mix.
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
