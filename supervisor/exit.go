package supervisor

import (
	"errors"
	"fmt"
)

// Exit describes the end of an incarnation.
type Exit struct {
	Kind ExitKind
	// Err is the cause: the returned error, a *PanicError, or an error of a
	// Process. It is nil for a normal exit.
	Err error
}

// ExitKind classifies an Exit. Only Normal and ShutDown are clean: a
// transient child is not restarted after them.
type ExitKind uint8

const (
	// NoExit is the zero value: no incarnation has ended.
	NoExit ExitKind = iota
	// Normal: Run returned nil; a process exited with a code that means success.
	Normal
	// ShutDown: ended because it was asked to, or with ErrShutdown.
	ShutDown
	// Failure: returned an error, exited with another code, died of a signal.
	Failure
	// Panicked: a goroutine panicked or called runtime.Goexit.
	Panicked
	// Killed: ended because it was killed, by the supervisor or by others.
	Killed
	// Abandoned: did not end, and was cut off.
	Abandoned
	// Lost: ended unobserved, for an unknown reason.
	Lost
	// Ignored: its start returned ErrIgnore. After readiness that is a failure.
	Ignored
)

// Clean reports whether the exit does not restart a transient child:
// OTP's normal, shutdown and {shutdown, _}.
func (e Exit) Clean() bool { return e.Kind == Normal || e.Kind == ShutDown }

// String is the kind, with the error where there is one; an error alone is a
// failure. A normal exit is "completed".
func (e Exit) String() string {
	switch {
	case e.Kind == Normal && e.Err == nil:
		return "completed"
	case e.Err == nil:
		return e.Kind.String()
	case e.Kind == Failure, e.Err.Error() == e.Kind.String():
		return e.Err.Error()
	}
	return fmt.Sprintf("%v: %v", e.Kind, e.Err)
}

// exitOf classifies the result of a Run or Start function. It calls methods of the
// error, so it must run in the child's goroutine.
func exitOf(err error) Exit {
	switch {
	case err == nil:
		return Exit{Kind: Normal}
	case errors.Is(err, ErrShutdown):
		return Exit{Kind: ShutDown, Err: err}
	case errors.Is(err, ErrIgnore):
		return Exit{Kind: Ignored, Err: err}
	}
	return Exit{Kind: Failure, Err: err}
}
