package wire

import (
	"errors"
	"fmt"
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

// sentinel returns the errors that keep their identity, by name.
func sentinel(name string) error {
	switch name {
	case "busy":
		return runtime.ErrBusy
	case "stale":
		return runtime.ErrStale
	case "ended":
		return runtime.ErrEnded
	case "unknown":
		return runtime.ErrUnknown
	case "unsupported":
		return runtime.ErrUnsupported
	case "overdue":
		return runtime.ErrOverdue
	case "writer":
		return runtime.ErrWriter
	case "not ready":
		return supervisor.ErrNotReady
	case "timeout":
		return supervisor.ErrStartTimeout
	case "killed":
		return supervisor.ErrKilled
	case "command":
		return proc.ErrCommand
	case "give up":
		return supervisor.ErrDoNotRestart
	case "closing":
		return ErrClosing
	}
	return nil
}

var names = [...]string{
	"busy", "stale", "ended", "unknown", "unsupported", "overdue", "writer", "not ready", "timeout", "killed",
	"command",
	"give up", "closing",
}

// ErrClosing: the shim ends because it had nothing to do for long.
var ErrClosing = errors.New("shim is closing")

// NewFailure describes an error; nil for nil.
func NewFailure(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Text: err.Error()}
	for _, name := range names {
		if errors.Is(err, sentinel(name)) {
			f.Is = append(f.Is, name)
		}
	}
	var e *proc.ExitError
	if errors.As(err, &e) {
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
	for _, name := range f.Is {
		if s := sentinel(name); s != nil {
			e.wrapped = append(e.wrapped, s)
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
