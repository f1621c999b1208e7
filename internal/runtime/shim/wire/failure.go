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

// End is how an incarnation ended.
type End struct {
	Kind    string    `json:"kind"` // of a supervisor.ExitKind
	Failure *Failure  `json:"failure,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// NewEnd describes an exit.
func NewEnd(e supervisor.Exit, at time.Time) *End {
	return &End{Kind: e.Kind.String(), Failure: NewFailure(e.Err), At: at}
}

// NewLost describes the end of an incarnation that was not observed.
func NewLost(err error, at time.Time) *End {
	return NewEnd(supervisor.Exit{Kind: supervisor.Lost, Err: err}, at)
}

// Exit is the exit that the End describes. One of a kind that is not known
// here, from another version, is a failure.
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

// Failure is an error on its way through a socket or a file.
type Failure struct {
	Text string   `json:"text"`
	Is   []string `json:"is,omitempty"` // sentinels that the error wraps, by their names below
	Exit *Exit    `json:"exit,omitempty"`
}

// Exit is a proc.ExitError.
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
	{"writer", runtime.ErrWriter},
	{"not ready", supervisor.ErrNotReady},
	{"timeout", supervisor.ErrStartTimeout},
	{"killed", supervisor.ErrKilled},
	{"command", proc.ErrCommand},
	{"give up", supervisor.ErrDoNotRestart},
	{"closing", ErrClosing},
}

// ErrClosing: the shim ends because it had nothing to do for long.
var ErrClosing = errors.New("shim is closing")

// NewFailure describes an error; nil for nil.
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

// Err is the error that the Failure describes; nil for nil.
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

// remoteError has the text of the original and wraps what that did.
type remoteError struct {
	text    string
	wrapped []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.wrapped }
