// Package message has the messages between a controller and the nodes whose runtimes it uses, and the frames in which
// they are sent. What differs between machines is sent by name, and what is compared with a clock as an age.
package message

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/store"
)

// Version is that of the messages.
const Version = 1

// Requests. Those of the second group change something, and carry a fence.
const (
	OpHello      = "hello"  // Version, Client
	OpPing       = "ping"   // answered at once
	OpCancel     = "cancel" // the request ID is given up; without an answer
	OpTaken      = "taken"  // the Output of the request ID that was sent last; without an answer
	OpWatch      = "watch"  // Refs; without an answer, but State of each of them follows
	OpList       = "list"
	OpRemoved    = "removed"
	OpPeek       = "peek"     // Lines
	OpScreen     = "screen"   // Lines
	OpActivity   = "activity" // answered by Age and State
	OpFollow     = "follow"   // answered by More whenever the log has grown, until the incarnation has ended
	OpUnfinished = "unfinished"
	OpLog        = "log"  // Log; answered by Log
	OpFile       = "file" // Name; answered by Data

	OpStart  = "start"  // Launch; answered by State, which is watched from then on
	OpAdopt  = "adopt"  // the same, without a launch
	OpReady  = "ready"  // Incarnation
	OpRemove = "remove" // of a slot
	OpStop   = "stop"   // Grace
	OpKill   = "kill"
	OpSignal = "signal" // Signal
	OpWrite  = "write"  // Data
	OpResize = "resize" // Rows, Cols
	OpExec   = "exec"   // Launch, Timeout; answered by Output again and again, and by Texts at the end of the command
	OpAttach = "attach" // Input, Earlier; on a connection of its own
)

// Ref names an incarnation. The token distinguishes those with the same number, before and after a reset.
type Ref struct {
	Kind        string `json:"kind,omitempty"`
	Path        string `json:"path,omitempty"`
	Incarnation uint64 `json:"incarnation,omitempty"`
	Token       string `json:"token,omitempty"`
}

// Slot returns the slot of the incarnation.
func (r Ref) Slot() Slot { return Slot{r.Kind, r.Path} }

// Slot names a slot of a node.
type Slot struct{ Kind, Path string }

// Request is a message to the node. Its subject is the incarnation in Ref, or the slot, or all slots of the kind.
type Request struct {
	ID uint64 `json:"id,omitempty"`
	Op string `json:"op"`
	Ref
	Fence   *store.Fence  `json:"fence,omitempty"`
	Version int           `json:"version,omitempty"`
	Client  string        `json:"client,omitempty"` // random, the same for all connections of a client
	Refs    []Ref         `json:"refs,omitempty"`   // at most MaxRefs
	Launch  *Launch       `json:"launch,omitempty"`
	Lines   int           `json:"lines,omitempty"`
	Grace   time.Duration `json:"grace,omitempty"`
	Signal  *Signal       `json:"signal,omitempty"`
	Data    []byte        `json:"data,omitempty"` // at most MaxData
	Rows    uint16        `json:"rows,omitempty"`
	Cols    uint16        `json:"cols,omitempty"`
	Input   bool          `json:"input,omitempty"`
	Earlier int           `json:"earlier,omitempty"`
	Log     *LogStart     `json:"log,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Name    string        `json:"name,omitempty"` // of a file
}

// MaxRefs is the number of Refs that one request may have.
const MaxRefs = 500

// Answer is a message from the node. Without an ID it is the new State of a watched incarnation.
type Answer struct {
	ID      uint64         `json:"id,omitempty"`
	More    bool           `json:"more,omitempty"` // another one with the same ID follows
	Failure *Failure       `json:"failure,omitempty"`
	Version int            `json:"version,omitempty"`
	State   *State         `json:"state,omitempty"`
	List    []State        `json:"list,omitempty"`
	Texts   []string       `json:"texts,omitempty"`  // lines, or paths
	Screen  bool           `json:"screen,omitempty"` // Texts are a screen
	Age     *time.Duration `json:"age,omitempty"`    // of the last activity; nil if there is none
	Log     *LogPart       `json:"log,omitempty"`
	Output  []Line         `json:"output,omitempty"`
	Data    []byte         `json:"data,omitempty"` // of a file
	Size    int            `json:"-"`              // of the message, for its reader
}

// State is a runtime.Observation that is sent.
type State struct {
	Ref
	SpecHash   string       `json:"spec_hash,omitempty"`
	Life       runtime.Life `json:"life,omitempty"`
	Ready      bool         `json:"ready,omitempty"` // also if it has ended since
	PID        int          `json:"pid,omitempty"`
	StartedAt  time.Time    `json:"started_at,omitzero"`
	End        *wire.End    `json:"end,omitempty"` // if Life is Dead
	Detail     string       `json:"detail,omitempty"`
	Unrecorded bool         `json:"unrecorded,omitempty"`
	Said       *wire.Notice `json:"said,omitempty"`
	Before     []wire.Past  `json:"before,omitempty"`
}

// NewState describes an observation by now.
func NewState(kind string, o runtime.Observation, now time.Time) *State {
	s := &State{
		Ref: Ref{kind, o.Path, o.Incarnation, o.Token}, SpecHash: o.SpecHash, Life: o.Life, Ready: o.Ready, PID: o.PID,
		StartedAt: o.StartedAt, Detail: o.Detail, Unrecorded: o.Unrecorded, Said: wire.NewNotice(o.Said, now),
	}
	if o.Life == runtime.Dead {
		s.End = wire.NewEnd(o.Exit, o.ExitedAt)
	}
	for _, e := range o.Before {
		s.Before = append(s.Before, wire.Past{Incarnation: e.Incarnation, End: *wire.NewEnd(e.Exit, e.ExitedAt)})
	}
	return s
}

// LostState describes an incarnation of which nothing is left.
func LostState(r Ref, err error, now time.Time) *State {
	return &State{Ref: r, Life: runtime.Dead, End: wire.NewLost(err, now)}
}

// Observation returns the described observation, as it was received now.
func (s *State) Observation(now time.Time) runtime.Observation {
	o := runtime.Observation{
		Path: s.Path, Incarnation: s.Incarnation, SpecHash: s.SpecHash, Token: s.Token, Life: s.Life,
		StartedAt: s.StartedAt, Detail: s.Detail, Said: s.Said.Notice(now),
	}
	switch {
	case s.End != nil:
		o.Life, o.Exit, o.ExitedAt, o.Unrecorded = runtime.Dead, s.End.Exit(), s.End.At, s.Unrecorded
	case s.Life == runtime.Alive:
		o.Ready, o.PID = s.Ready, s.PID
	default:
		o.Life = runtime.Unknown
	}
	for _, p := range s.Before {
		o.Before = append(o.Before, runtime.Ended{Incarnation: p.Incarnation, ExitedAt: p.End.At, Exit: p.End.Exit()})
	}
	return o
}

// Signal is a signal that is sent by its name, because its number differs between systems. Those without a name are
// sent by number.
type Signal struct {
	Name   string `json:"name,omitempty"`
	Number int    `json:"number,omitempty"`
}

// NewSignal describes a signal of this system.
func NewSignal(s syscall.Signal) *Signal {
	if name := unix.SignalName(s); name != "" {
		return &Signal{Name: name}
	}
	return &Signal{Number: int(s)}
}

// Local returns the signal on this system; -1 if it has none of that name.
func (s *Signal) Local() syscall.Signal {
	switch {
	case s == nil:
		return 0
	case s.Name == "":
		return syscall.Signal(s.Number)
	}
	if n := unix.SignalNum(strings.ToUpper(s.Name)); n != 0 {
		return n
	}
	return -1
}

// Line is a proc.Line that is sent.
type Line struct {
	Time time.Time   `json:"time,omitzero"`
	From proc.Stream `json:"from,omitempty"`
	Text string      `json:"text,omitempty"`
	More bool        `json:"more,omitempty"`
}

// NewLine describes a line.
func NewLine(l proc.Line) Line {
	return Line{Time: l.Time, From: l.Stream, Text: l.Text, More: l.More}
}

// Line returns the line that was received.
func (l Line) Line() proc.Line {
	if l.From != proc.Stderr {
		l.From = proc.Stdout
	}
	return proc.Line{Time: l.Time, Stream: l.From, Text: l.Text[:min(len(l.Text), proc.MaxLine)], More: l.More}
}
