// Package wire defines what shims and their clients share: the messages on the
// socket, the files of a slot, and the lock that proves that a shim is running.
//
// The protocol is one JSON object a line, of at most MaxMessage bytes. The
// client speaks first and says hello with the version; the shim answers with
// its state. After that each request has an ID that its answer repeats, and
// the shim sends its state, without ID, whenever that has changed. What is said
// while an agent is down is short: its end, and that it shall be launched again.
// Only a connection that listens is different: see Line.
package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

const (
	// Version of the protocol and of the files of a slot.
	Version = 1
	// MaxMessage bounds a message with its line end, in bytes.
	MaxMessage = 1 << 20
	// MaxData bounds Message.Data, in bytes.
	MaxData = 64 << 10
)

// Types of messages.
const (
	Hello  = "hello"  // V; answered by State
	Start  = "start"  // Launch or Again; answered by State when the process exists
	Stop   = "stop"   // the stop signal, and SIGKILL after the grace period
	Kill   = "kill"   // SIGKILL
	Signal = "signal" // Signal, to the agent alone
	Ready  = "ready"  // as the agent says by another way than its notify socket
	Write  = "write"  // Data
	Resize = "resize" // Rows, Cols
	Attach = "attach" // Writer; then Input and Resize without answer, and Output from the shim
	Input  = "input"  // Data
	Follow = "follow" // then Grew from the shim, whenever the log has
	// Unfinished asks for what there is of the last line while it has no end: Output
	// from the shim at once and whenever that has changed.
	Unfinished = "unfinished"
	Listen     = "listen" // to each line of the slot's agents; then Line instead of messages
	Look       = "look"   // answered by State
	Quit       = "quit"   // end the shim, if no agent runs
	OK         = "ok"
	Error      = "error" // Failure
	Status     = "state" // State
	Exited     = "exit"  // End, Ready, Told, Said; nothing else of the State has changed
	Said       = "said"  // Said; nothing else of the State has changed
	Output     = "output"
	Grew       = "grew"
	Ended      = "ended" // the last message of Attach, Follow and Unfinished: the incarnation has ended
)

// Message is any message, in either direction.
type Message struct {
	Type        string  `json:"type"`
	V           int     `json:"v,omitempty"`
	ID          uint64  `json:"id,omitempty"`
	Incarnation uint64  `json:"incarnation,omitempty"` // that it is about; of all but hello and look
	Launch      *Launch `json:"launch,omitempty"`
	Again       uint64  `json:"again,omitempty"` // launch that of this incarnation once more: see Again
	Group       *Group  `json:"group,omitempty"` // of a start
	Token       string  `json:"token,omitempty"` // of a start, to tell one's own from a rival's
	Signal      int     `json:"signal,omitempty"`
	// of a stop, in nanoseconds: at least so long; that of the launch if it is longer
	Grace   int64  `json:"grace,omitempty"`
	Rows    uint16 `json:"rows,omitempty"`
	Cols    uint16 `json:"cols,omitempty"`
	Writer  bool   `json:"writer,omitempty"`
	Partial bool   `json:"partial,omitempty"` // of a listen: also to lines that have no end yet
	Data    []byte `json:"data,omitempty"`
	State   *State `json:"state,omitempty"`
	End     *End   `json:"end,omitempty"`
	// with End: whether it ever was, as this may come before the answer to its start
	Ready   bool     `json:"ready,omitempty"`
	Told    uint64   `json:"told,omitempty"` // with End: see State
	Said    *Notice  `json:"said,omitempty"` // with End: nil if that has not changed
	Failure *Failure `json:"failure,omitempty"`
}

// Group is the control group that a start happens in.
type Group struct {
	Dir      string         `json:"dir"`
	Enforced runtime.Limits `json:"enforced"` // the limits of the launch that hold for it as a whole
}

// State is what a shim knows of the last incarnation of its slot. It is also
// what the slot's state file holds.
type State struct {
	Version     int           `json:"version"`
	Path        string        `json:"path"`
	Incarnation uint64        `json:"incarnation"` // 0: there was none
	SpecHash    string        `json:"fingerprint,omitempty"`
	Token       string        `json:"token,omitempty"`
	Shim        proc.Identity `json:"shim"`
	Agent       proc.Identity `json:"agent"`
	Group       string        `json:"cgroup,omitempty"` // directory of the agent's control group
	StartedAt   time.Time     `json:"started_at,omitzero"`
	Ready       bool          `json:"ready,omitempty"`
	Activity    time.Time     `json:"activity,omitzero"`
	Told        uint64        `json:"told,omitempty"` // lines that who listens was sent before
	Detail      string        `json:"detail,omitempty"`
	Said        *Notice       `json:"said,omitempty"` // nil: there is no listener
	End         *End          `json:"end,omitempty"`
	// Restricts: the shim knows Launch.NoNewPrivileges and Launch.User, which versions before would ignore.
	Restricts bool `json:"restricts,omitempty"`
}

// ErrShimEnded is the reason for the loss of an incarnation without an exit record.
var ErrShimEnded = errors.New("its shim ended before it")

// LoadEnd sets the end of an incarnation whose shim has ended, and reports whether it was
// recorded. Without a valid exit record the incarnation was lost.
func (s *State) LoadEnd(dir string) (recorded bool) {
	record, err := ReadRecord(dir)
	switch {
	case err == nil && record.Incarnation == s.Incarnation:
		s.End = &record.End
		return true
	case err == nil || IsMissing(err):
		err = ErrShimEnded
	}
	s.End = NewLost(err, time.Now())
	return false
}

// ErrTooLong is a message of more than MaxMessage bytes.
var ErrTooLong = fmt.Errorf("message of more than %d bytes", MaxMessage)

// Reader reads messages. It holds no more memory than the messages need.
type Reader struct{ r *bufio.Reader }

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{bufio.NewReaderSize(r, 1<<10)} }

// Read returns the next message. The error is io.EOF only at the end of a
// message; after another one, nothing more can be read.
func (r *Reader) Read() (*Message, error) {
	var line []byte
	for {
		part, err := r.r.ReadSlice('\n')
		if len(line)+len(part) > MaxMessage {
			return nil, ErrTooLong
		}
		if err == nil && line == nil {
			line = part
			break
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && len(line) > 0 {
			err = fmt.Errorf("incomplete message: %w", io.ErrUnexpectedEOF)
		}
		return nil, err
	}
	m := new(Message)
	if err := json.Unmarshal(line, m); err != nil {
		return nil, fmt.Errorf("not a message (%.60q): %w", line, err)
	}
	if len(m.Data) > MaxData {
		return nil, fmt.Errorf("message with more than %d bytes of data", MaxData)
	}
	return m, nil
}

// Rest is what follows the last message that was read, on a connection on
// which there are no more messages.
func (r *Reader) Rest() io.Reader { return r.r }

// Encode returns the message with its line end.
func Encode(m *Message) ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", m.Type, err)
	}
	if len(b) >= MaxMessage {
		return nil, fmt.Errorf("message %s: %w", m.Type, ErrTooLong)
	}
	return append(b, '\n'), nil
}
