package wire

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// End describes how an incarnation ended.
type End struct {
	Kind    string    `json:"kind"` // of a supervisor.ExitKind
	Failure *Failure  `json:"failure,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// NewEnd describes an exit.
func NewEnd(e supervisor.Exit, at time.Time) *End {
	return &End{Kind: e.Kind.String(), Failure: NewFailure(e.Err), At: at}
}

// NewLost describes an end that was not observed.
func NewLost(err error, at time.Time) *End {
	return NewEnd(supervisor.Exit{Kind: supervisor.Lost, Err: err}, at)
}

// Exit returns the described exit. An exit of an unknown kind, from another version, is a
// failure.
func (e *End) Exit() supervisor.Exit {
	for k := supervisor.Normal; k <= supervisor.Lost; k++ {
		if k.String() == e.Kind {
			return supervisor.Exit{Kind: k, Err: e.Failure.Err()}
		}
	}
	err := fmt.Errorf("exit of unknown kind %.40q", e.Kind)
	if cause := e.Failure.Err(); cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return supervisor.Exit{Kind: supervisor.Failure, Err: err}
}

// Failure is an error that is sent or stored.
type Failure struct {
	Text string   `json:"text"`
	Is   []string `json:"is,omitempty"` // names of the sentinels that the error wraps
	Exit *Exit    `json:"exit,omitempty"`
}

// Exit is a proc.ExitError that is sent or stored.
type Exit struct {
	Code       int      `json:"code"`
	Signal     int      `json:"signal,omitempty"`
	CoreDumped bool     `json:"core_dumped,omitempty"`
	LastOutput []string `json:"last_output,omitempty"`
}

// sentinels are the errors that keep their identity, with their names in messages.
var sentinels = [...]struct {
	name string
	err  error
}{
	{"busy", runtime.ErrBusy},
	{"stale", runtime.ErrStale},
	{"ended", runtime.ErrEnded},
	{"unknown", runtime.ErrUnknown},
	{"unsupported", runtime.ErrUnsupported},
	{"overdue", runtime.ErrOverdue},
	{"fenced", runtime.ErrFenced},
	{"deadline", runtime.ErrDeadline},
	{"writer", runtime.ErrWriter},
	{"not ready", supervisor.ErrNotReady},
	{"timeout", supervisor.ErrStartTimeout},
	{"killed", supervisor.ErrKilled},
	{"command", proc.ErrCommand},
	{"give up", supervisor.ErrDoNotRestart},
	{"closing", ErrClosing},
	{"full", ErrFull},
	{"not served", ErrNotServed},
}

// ErrClosing means that the shim leaves the slot because it was idle.
var ErrClosing = errors.New("shim is closing")

// ErrNotServed means that the shim does not serve the slot.
var ErrNotServed = errors.New("shim does not serve the slot")

// ErrFull means that the shim has as many slots as it may have.
var ErrFull = errors.New("shim has enough slots")

// NewFailure describes an error; it returns nil for nil.
func NewFailure(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Text: err.Error()}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			f.Is = append(f.Is, s.name)
		}
	}
	if e, ok := errors.AsType[*proc.ExitError](err); ok {
		f.Exit = &Exit{Code: e.Code, Signal: int(e.Signal), CoreDumped: e.CoreDumped, LastOutput: e.LastOutput}
	}
	return f
}

// Err returns the described error; nil for nil.
func (f *Failure) Err() error {
	if f == nil {
		return nil
	}
	e := &remoteError{text: f.Text}
	for _, s := range sentinels {
		if slices.Contains(f.Is, s.name) {
			e.wrapped = append(e.wrapped, s.err)
		}
	}
	if f.Exit != nil {
		exit := &proc.ExitError{
			Code: f.Exit.Code, Signal: syscall.Signal(f.Exit.Signal),
			CoreDumped: f.Exit.CoreDumped, LastOutput: f.Exit.LastOutput,
		}
		if exit.Error() == f.Text {
			return exit
		}
		e.wrapped = append(e.wrapped, exit)
	}
	if len(e.wrapped) == 1 && e.wrapped[0].Error() == f.Text {
		return e.wrapped[0]
	}
	return e
}

// remoteError has the text of the original error and wraps the same sentinels.
type remoteError struct {
	text    string
	wrapped []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.wrapped }
