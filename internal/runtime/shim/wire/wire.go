// Package wire defines what shims and their clients share: the messages on the socket, the files
// of a slot, and the lock that proves that a shim serves it.
//
// The protocol is one JSON object a line, of at most MaxMessage bytes. The client first says
// hello with the version, and the shim answers with its state. After that each request has an ID
// that its answer repeats, and the shim sends its state without an ID whenever it has changed.
// The messages that are sent while an agent is down are short: its end, and the request to
// launch it again. A connection with Listen has another format: see Line.
//
// A shim has one socket, to which those of its slots are links. Each message names its slot, or the
// hello names that of the whole connection. Requests without a slot are about the shim itself: Look,
// Wake, Deadline and Serve. Serve comes with a file, the locked lock file of the slot that the shim is to serve,
// and is answered by its state. When the shim leaves a slot it sends Left.
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
	// Version is the version of the protocol and of the files of a slot.
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
	Ready  = "ready"  // the agent has reported readiness by another way than its notify socket
	Write  = "write"  // Data
	Resize = "resize" // Rows, Cols
	// Attach has Writer and Earlier. Then Input and Resize come without answer, and from the shim Output, and Resize
	// with the size of the terminal, at first and when it has changed.
	Attach = "attach"
	Input  = "input"  // Data
	Follow = "follow" // then Grew from the shim, whenever the log has
	// Unfinished asks for the unfinished last line: Output from the shim, immediately and
	// whenever it has changed.
	Unfinished = "unfinished"
	Listen     = "listen"   // each line of the slot's agents; then Line instead of messages
	Look       = "look"     // answered by State
	Quit       = "quit"     // leave the slot, if no agent runs; without a name: all such slots
	Serve      = "serve"    // Name, Most, and the lock: see above
	Wake       = "wake"     // create removed files again
	Deadline   = "deadline" // File: the agents of the shim end at the deadline in it, also without a client
	Left       = "left"     // Name, Slots: a slot is no longer served
	OK         = "ok"
	Error      = "error" // Failure
	Status     = "state" // State
	Exited     = "exit"  // End, Ready, Told, Said; the rest of the State has not changed
	Said       = "said"  // Said; the rest of the State has not changed
	Output     = "output"
	Grew       = "grew"
	Ended      = "ended" // the last message of Attach, Follow and Unfinished: the incarnation has ended
)

// Message is any message, in either direction.
type Message struct {
	Type        string  `json:"type"`
	V           int     `json:"v,omitempty"`
	ID          uint64  `json:"id,omitempty"`
	Incarnation uint64  `json:"incarnation,omitempty"` // subject of all messages except hello and look
	Launch      *Launch `json:"launch,omitempty"`
	Again       uint64  `json:"again,omitempty"` // repeats the launch of this incarnation: see Again
	Group       *Group  `json:"group,omitempty"` // of a start
	Token       string  `json:"token,omitempty"` // of a start; distinguishes it from another client's
	Signal      int     `json:"signal,omitempty"`
	// Grace, of a stop, is the minimum grace period in nanoseconds; the launch may have a longer
	// one.
	Grace   int64  `json:"grace,omitempty"`
	Rows    uint16 `json:"rows,omitempty"`
	Cols    uint16 `json:"cols,omitempty"`
	Writer  bool   `json:"writer,omitempty"`
	Earlier int    `json:"earlier,omitempty"` // of an attach: see runtime.Attachment
	Partial bool   `json:"partial,omitempty"` // of a listen: also unfinished lines
	Data    []byte `json:"data,omitempty"`
	State   *State `json:"state,omitempty"`
	End     *End   `json:"end,omitempty"`
	// Ready, with End, reports whether it ever was ready, because this message may come before
	// the answer to its start.
	Ready   bool     `json:"ready,omitempty"`
	Told    uint64   `json:"told,omitempty"` // with End: see State
	Said    *Notice  `json:"said,omitempty"` // with End: nil if unchanged
	Failure *Failure `json:"failure,omitempty"`
	// Name, of a serve and of left, is that of the directory of a slot.
	Name  string `json:"name,omitempty"`
	Most  int    `json:"most,omitempty"`  // of a serve: slots that the shim may have then; 0 means 1
	Slots int    `json:"slots,omitempty"` // of left and the answer to a hello: slots that the shim has
	Key   string `json:"key,omitempty"`   // of the answer to a hello: what the slots of the shim have in common
	File  []byte `json:"file,omitempty"`  // of a deadline: the absolute name of the file of package deadline
	// Program, of the answer to a hello, means that the agents of the shim are those of a program.
	Program bool `json:"program,omitempty"`
}

// Group is the control group of a start.
type Group struct {
	Dir      string         `json:"dir"`
	Enforced runtime.Limits `json:"enforced"` // limits of the launch that hold for the whole group
}

// State is what a shim knows of the last incarnation of its slot. The lock file has it, too, except
// for the end.
type State struct {
	Version     int           `json:"version"`
	Path        string        `json:"path"`
	Incarnation uint64        `json:"incarnation"` // 0 if there was none
	SpecHash    string        `json:"fingerprint,omitempty"`
	Token       string        `json:"token,omitempty"`
	Shim        proc.Identity `json:"shim"`
	Agent       proc.Identity `json:"agent"`
	Group       string        `json:"cgroup,omitempty"` // directory of the agent's control group
	StartedAt   time.Time     `json:"started_at,omitzero"`
	Ready       bool          `json:"ready,omitempty"`
	Activity    time.Time     `json:"activity,omitzero"`
	Told        uint64        `json:"told,omitempty"` // lines that were sent to the listener before
	Detail      string        `json:"detail,omitempty"`
	Said        *Notice       `json:"said,omitempty"` // nil if there is no listener
	End         *End          `json:"end,omitempty"`
	// Restricts means that the shim supports Launch.NoNewPrivileges and Launch.User. Older
	// versions would ignore them.
	Restricts bool `json:"restricts,omitempty"`
	// Confines means the same for Launch.Paths.
	Confines bool `json:"confines,omitempty"`
	// Expires means that the shim supports Deadline.
	Expires bool `json:"expires,omitempty"`
	// Grace is the time from a stop to SIGKILL: negative without a limit, and 0 in a shim that does not tell it.
	Grace time.Duration `json:"grace,omitempty"`
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

// ErrTooLong is the error of a message of more than MaxMessage bytes.
var ErrTooLong = fmt.Errorf("message of more than %d bytes", MaxMessage)

// Reader reads messages. It uses no more memory than the messages need.
type Reader struct{ r *bufio.Reader }

// readerSize holds most messages, which are then decoded in place. A start has 1 to 6 kB.
const readerSize = 4 << 10

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{bufio.NewReaderSize(r, readerSize)} }

// Read returns the next message. The error is io.EOF only between messages; after another error
// nothing more can be read.
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

// Rest returns what follows the last message, on a connection without more messages.
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
