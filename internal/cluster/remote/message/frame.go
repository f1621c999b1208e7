package message

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Protocol is the protocol to which the HTTP connections are upgraded: frames in both directions. A frame is a byte
// for its kind, the length of its content in four bytes (big endian), and the content.
const Protocol = "coppice-remote/1"

// Kinds of frames.
const (
	frameMessage = 'm' // a request or an answer, as JSON
	FrameData    = 'd' // of a terminal, in one of the directions
	FrameResize  = 'r' // rows and columns of a terminal, two bytes each
	FrameEnd     = 'e' // of a terminal; from the node, with a failure as JSON or empty
)

const (
	// MaxMessage bounds the content of a frame. A launch may have the bundle of a program.
	MaxMessage = 16 << 20
	MaxData    = 32 << 10 // of one frame of a terminal, or one write
)

// errFrame is returned for what is not a frame.
var errFrame = errors.New("not a frame of " + Protocol)

// ReadFrame reads a frame of at most most bytes. The error is io.EOF only between two frames. It uses no more memory
// than what was sent.
func ReadFrame(r io.Reader, most int) (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[1:]))
	if n > int64(most) {
		return 0, nil, fmt.Errorf("%w: it claims to have %d bytes; at most %d are possible", errFrame, n, most)
	}
	var b bytes.Buffer
	b.Grow(int(min(n, 64<<10)))
	if _, err := io.CopyN(&b, r, n); err != nil {
		return 0, nil, fmt.Errorf("frame %q: %w", head[0], errors.Join(io.ErrUnexpectedEOF, err))
	}
	return head[0], b.Bytes(), nil
}

// Read reads a frame with a message into v.
func Read(r io.Reader, v any) (size int, err error) {
	kind, content, err := ReadFrame(r, MaxMessage)
	if err != nil {
		return 0, err
	}
	if kind != frameMessage {
		return 0, fmt.Errorf("%w: frame %q where a message was expected", errFrame, kind)
	}
	if err := json.Unmarshal(content, v); err != nil {
		return 0, fmt.Errorf("not a message (%.60q): %w", content, err)
	}
	return len(content), nil
}

// appendFrame appends a frame. The content must fit.
func appendFrame(b []byte, kind byte, content []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, kind), uint32(len(content)))
	return append(b, content...)
}

// Encode returns the frame of a message.
func Encode(v any) ([]byte, error) {
	content, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(content) > MaxMessage {
		return nil, fmt.Errorf("message of %d bytes; at most %d are possible", len(content), MaxMessage)
	}
	return appendFrame(make([]byte, 0, 5+len(content)), frameMessage, content), nil
}

// HangUp closes a connection at once. A tls.Conn would try to say goodbye first, which may take seconds.
func HangUp(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		t.NetConn().Close()
	}
	c.Close()
}

// writeTimeout bounds each write to a connection.
const writeTimeout = 10 * time.Second

// Writer writes frames to a connection. Concurrent writes do not mix.
type Writer struct {
	Conn net.Conn
	mu   sync.Mutex
}

// Send writes frames.
func (w *Writer) Send(frames []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // a closed connection fails below
	_, err := w.Conn.Write(frames)
	return err
}

// Frame writes one frame.
func (w *Writer) Frame(kind byte, content []byte) error {
	return w.Send(appendFrame(nil, kind, content))
}

// Write sends data of a terminal.
func (w *Writer) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+MaxData)]
		if err := w.Frame(FrameData, part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// Resize sends the size of a terminal.
func (w *Writer) Resize(rows, cols uint16) error {
	return w.Frame(FrameResize, binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, rows), cols))
}

// SizeOf returns the size in a resize frame.
func SizeOf(content []byte) (size [2]uint16, ok bool) {
	if len(content) != 4 {
		return size, false
	}
	return [2]uint16{binary.BigEndian.Uint16(content), binary.BigEndian.Uint16(content[2:])}, true
}
