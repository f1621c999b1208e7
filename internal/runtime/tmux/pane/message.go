package pane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Files of a slot for the programs of this package.
const (
	StartSocket = "start"        // of a daemon that starts an incarnation
	LogSocket   = "keeper"       // of the keeper of the log
	KeeperLog   = "pane.log"     // errors of the keeper itself
	StateFile   = "slot.json"    // of the daemon: the last incarnation
	ExpiredFile = "expired.json" // of the keeper: see Expired
)

// Types of messages.
const (
	Launcher = "launcher" // to a daemon: Token, PID; answered by Go
	Keeper   = "keeper"   // to a daemon: Token, PID; not answered
	Go       = "go"       // Launch, and the PID of the tmux server
	Error    = "error"    // Failure: the launcher could not become the agent

	Flush   = "flush"   // to the keeper; answered by Flushed when no more can be read now
	Flushed = "flushed" // Received, Tail
	Follow  = "follow"  // to the keeper; then Grew whenever the log has grown
	Grew    = "grew"
	Quit    = "quit" // to the keeper

	Deadline = "deadline" // File, to the keeper: it ends the agent at the deadline in it; answered by Watches
	Watches  = "watches"
)

// Message is any message: a JSON object of at most MaxMessage bytes.
type Message struct {
	Type     string        `json:"type"`
	Token    string        `json:"token,omitempty"`
	PID      int           `json:"pid,omitempty"`
	Launch   *wire.Launch  `json:"launch,omitempty"`
	Failure  *wire.Failure `json:"failure,omitempty"`
	Received int64         `json:"received,omitempty"` // bytes of this incarnation's output
	Tail     []string      `json:"tail,omitempty"`     // its last lines
	File     []byte        `json:"file,omitempty"`
}

// MaxMessage bounds a message. The kernel accepts no larger command line and environment.
const MaxMessage = 8 << 20

// Conn sends and receives messages.
type Conn struct {
	*net.UnixConn
	limit *io.LimitedReader
	dec   *json.Decoder
}

// NewConn returns a Conn over c, whose peer must be this user or root.
func NewConn(c *net.UnixConn) (*Conn, error) {
	if err := wire.CheckPeer(c); err != nil {
		c.Close()
		return nil, err
	}
	limit := &io.LimitedReader{R: c}
	return &Conn{UnixConn: c, limit: limit, dec: json.NewDecoder(limit)}, nil
}

// Dial connects to the keeper of the log of a slot.
func Dial(dir string) (*Conn, error) {
	d, err := private.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: InDir(int(d.Fd()), LogSocket), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("connecting to the keeper of the log: %w", err)
	}
	return NewConn(c)
}

// InDir returns a name for a socket that is short enough, whatever the path of the open directory.
func InDir(fd int, name string) string { return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + name }

// Receive returns the next message; io.EOF if there is none.
func (c *Conn) Receive() (*Message, error) {
	c.limit.N = MaxMessage
	m := new(Message)
	err := c.dec.Decode(m)
	if err != nil && c.limit.N <= 0 {
		return nil, fmt.Errorf("message of more than %d bytes", MaxMessage)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("incomplete message: %w", err)
	}
	return m, err
}

// Send sends a message.
func (c *Conn) Send(m *Message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(b) >= MaxMessage {
		return fmt.Errorf("message of %d bytes, at most %d are allowed", len(b), MaxMessage)
	}
	_, err = c.Write(append(b, '\n'))
	return err
}
