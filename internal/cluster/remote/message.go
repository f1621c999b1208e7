package remote

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/store"
)

// version is that of the messages.
const version = 1

// Requests. Those of the second group change something, and carry a fence.
const (
	opHello      = "hello"  // Version, Client
	opPing       = "ping"   // answered at once
	opCancel     = "cancel" // the request ID is given up; without an answer
	opTaken      = "taken"  // the Output of the request ID that was sent last; without an answer
	opWatch      = "watch"  // Refs; without an answer, but State of each of them follows
	opList       = "list"
	opRemoved    = "removed"
	opPeek       = "peek"     // Lines
	opScreen     = "screen"   // Lines
	opActivity   = "activity" // answered by Age and State
	opFollow     = "follow"   // answered by More whenever the log has grown, until the incarnation has ended
	opUnfinished = "unfinished"
	opLog        = "log" // Log; answered by Log

	opStart  = "start"  // Launch; answered by State, which is watched from then on
	opAdopt  = "adopt"  // the same, without a launch
	opReady  = "ready"  // Incarnation
	opRemove = "remove" // of a slot
	opStop   = "stop"   // Grace
	opKill   = "kill"
	opSignal = "signal" // Signal
	opWrite  = "write"  // Data
	opResize = "resize" // Rows, Cols
	opExec   = "exec"   // Launch, Timeout; answered by Output again and again, and by Texts at the end of the command
	opAttach = "attach" // Input, Earlier; on a connection of its own
)

// ref names an incarnation. The token distinguishes those with the same number, before and after a reset.
type ref struct {
	Kind        string `json:"kind,omitempty"`
	Path        string `json:"path,omitempty"`
	Incarnation uint64 `json:"incarnation,omitempty"`
	Token       string `json:"token,omitempty"`
}

func (r ref) slot() slot { return slot{r.Kind, r.Path} }

// slot names a slot of a node.
type slot struct{ kind, path string }

// request is a message to the node. Its subject is the incarnation in ref, or the slot, or all slots of the kind.
type request struct {
	ID uint64 `json:"id,omitempty"`
	Op string `json:"op"`
	ref
	Fence   *store.Fence  `json:"fence,omitempty"`
	Version int           `json:"version,omitempty"`
	Client  string        `json:"client,omitempty"` // random, the same for all connections of a client
	Refs    []ref         `json:"refs,omitempty"`   // at most maxRefs
	Launch  *launch       `json:"launch,omitempty"`
	Lines   int           `json:"lines,omitempty"`
	Grace   time.Duration `json:"grace,omitempty"`
	Signal  *signal       `json:"signal,omitempty"`
	Data    []byte        `json:"data,omitempty"` // at most maxData
	Rows    uint16        `json:"rows,omitempty"`
	Cols    uint16        `json:"cols,omitempty"`
	Input   bool          `json:"input,omitempty"`
	Earlier int           `json:"earlier,omitempty"`
	Log     *logStart     `json:"log,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
}

const maxRefs = 500

// answer is a message from the node. Without an ID it is the new State of a watched incarnation.
type answer struct {
	ID      uint64         `json:"id,omitempty"`
	More    bool           `json:"more,omitempty"` // another one with the same ID follows
	Failure *failure       `json:"failure,omitempty"`
	Version int            `json:"version,omitempty"`
	State   *state         `json:"state,omitempty"`
	List    []state        `json:"list,omitempty"`
	Texts   []string       `json:"texts,omitempty"`  // lines, or paths
	Screen  bool           `json:"screen,omitempty"` // Texts are a screen
	Age     *time.Duration `json:"age,omitempty"`    // of the last activity; nil if there is none
	Log     *logPart       `json:"log,omitempty"`
	Output  []outputLine   `json:"output,omitempty"`
}

// state is a runtime.Observation that is sent.
type state struct {
	ref
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

// newState describes an observation by now.
func newState(kind string, o runtime.Observation, now time.Time) *state {
	s := &state{
		ref: ref{kind, o.Path, o.Incarnation, o.Token}, SpecHash: o.SpecHash, Life: o.Life, Ready: o.Ready, PID: o.PID,
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

// lostState describes an incarnation of which nothing is left.
func lostState(r ref, err error, now time.Time) *state {
	return &state{ref: r, Life: runtime.Dead, End: wire.NewLost(err, now)}
}

// observation returns the described observation, as it was received now.
func (s *state) observation(now time.Time) runtime.Observation {
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

// signal is a signal that is sent by its name, because its number differs between systems. Those without a name are
// sent by number.
type signal struct {
	Name   string `json:"name,omitempty"`
	Number int    `json:"number,omitempty"`
}

func newSignal(s syscall.Signal) *signal {
	if name := unix.SignalName(s); name != "" {
		return &signal{Name: name}
	}
	return &signal{Number: int(s)}
}

// number returns the signal on this system; -1 if it has none of that name.
func (s *signal) number() syscall.Signal {
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
