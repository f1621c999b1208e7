package supervisor

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Errors that calls return, one for each result that OTP's supervisor has.
// Compare with errors.Is.
var (
	// ErrAlreadyStarted: StartChild of an ID that is running or starting.
	ErrAlreadyStarted = errors.New("already started")
	// ErrAlreadyPresent: StartChild of an ID that is listed but not running. Use RestartChild or DeleteChild.
	ErrAlreadyPresent = errors.New("already present, not running")
	// ErrRunning: RestartChild or DeleteChild of a child that runs.
	ErrRunning = errors.New("running")
	// ErrRestarting: RestartChild or DeleteChild of a child whose restart is pending. TerminateChild
	// cancels the restart, Reset performs it now.
	ErrRestarting = errors.New("restart pending")
	// ErrNotFound: no child of that ID.
	ErrNotFound = errors.New("no such child")
	// ErrSimpleOneForOne: a call that does not apply to a SimpleOneForOne supervisor.
	ErrSimpleOneForOne = errors.New("not for a simple_one_for_one supervisor")
	// ErrNoSupervisor: the supervisor has ended (OTP's noproc).
	ErrNoSupervisor = errors.New("supervisor has ended")
	// ErrStopping: the supervisor is shutting down and starts no more children.
	ErrStopping = errors.New("supervisor is shutting down")
	// ErrPaused: the supervisor's limit has paused it. Use Resume.
	ErrPaused = errors.New("supervisor is paused")
	// ErrNotRunning: ReplaceChild of a child that does not run.
	ErrNotRunning = errors.New("does not run")
	// ErrNotWaiting: Retry of a child that has not said when to try again.
	ErrNotWaiting = errors.New("does not wait to try again")
	// ErrTerminated: the child was terminated while the call waited for its start.
	ErrTerminated = errors.New("terminated while starting")
)

// Errors that children return or end with.
var (
	// ErrShutdown returned by a child is a clean exit, but not a normal one: OTP's {shutdown, _} when wrapped.
	ErrShutdown = errors.New("shutdown")
	// ErrIgnore returned by a start means that the child is not needed now: it is listed, not running.
	ErrIgnore = errors.New("ignore")
	// ErrStartTimeout: the child was not ready within StartTimeout.
	ErrStartTimeout = errors.New("not ready within the start timeout")
	// ErrNotReady: a Run child that must call Ready returned nil without doing so.
	ErrNotReady = errors.New("ended before it was ready")
	// ErrGoexit: the child called runtime.Goexit.
	ErrGoexit = errors.New("runtime.Goexit called")
	// ErrDoNotRestart is wrapped by the error of a child whose next run would fail
	// in the same way. A limit with the action GiveUp is then reached at once; other
	// limits ignore it.
	ErrDoNotRestart = errors.New("give up")
	// ErrKilled: the child was killed by its supervisor.
	ErrKilled = errors.New("killed")
)

// RetryError says that a child cannot do its work for a reason outside of it, such as a quota
// that is used up, and when to try again. If the error of an exit, or of a start that failed,
// wraps one, the child is started at At, whatever its Restart is, and the start that failed
// counts for no limit and no backoff. Retry and Reset start it earlier.
//
// The next start comes at least a second after the last one, so that a time in the past makes no busy loop.
type RetryError struct {
	At  time.Time
	Err error // why; may be nil
}

func (e *RetryError) Error() string {
	text := "to be tried again at " + e.At.Format(time.TimeOnly)
	if e.Err != nil {
		text = e.Err.Error() + "; " + text
	}
	return text
}

func (e *RetryError) Unwrap() error { return e.Err }

// HeldError: a child is not renewed (ReplaceCounted), and runs as it did, because its limit
// would not let it start again at the moment.
type HeldError struct {
	Until time.Time // when the limit has room again
}

func (e *HeldError) Error() string {
	return "it was started too often, and goes on as it is until " + e.Until.Format(time.TimeOnly)
}

// SpecError is a fault in a Spec or ChildSpec. Path names the node, Field the
// field of it.
type SpecError struct {
	Path, Field, Problem string
}

func (e *SpecError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Path, e.Field, e.Problem)
}

// StartError is a failed start; ID is the child that failed (OTP's
// failed_to_start_child).
type StartError struct {
	ID  string
	Err error
}

func (e *StartError) Error() string { return fmt.Sprintf("start of %s failed: %v", e.ID, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// LimitError ends a supervisor whose limit was reached, with OnLimit == Escalate.
type LimitError struct {
	Path  string // of the supervisor
	Child string // ID of the child whose restart was one too many
	Limit Limit
	Exit  Exit // of that child's last incarnation
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: limit reached (%v): %s ended with %v", e.Path, e.Limit, e.Child, e.Exit)
}

// AbandonedError ends a supervisor whose child did not stop, if OnAbandon is Fail.
type AbandonedError struct {
	Path   string
	Waited time.Duration
}

func (e *AbandonedError) Error() string {
	return fmt.Sprintf("%s: did not stop within %v", e.Path, e.Waited)
}

// PanicError is the Err of a Panicked exit. Only the program counters are
// recorded when the panic happens; Stack formats them.
type PanicError struct {
	Value any // what panic was called with
	pcs   []uintptr
	once  sync.Once
	stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Stack is the stack of the panic, innermost frame first, two lines a frame
// as in a Go traceback.
func (e *PanicError) Stack() string {
	e.once.Do(func() {
		var b strings.Builder
		frames := runtime.CallersFrames(e.pcs)
		for {
			f, more := frames.Next()
			if f.Function != "" {
				fmt.Fprintf(&b, "%s()\n\t%s:%d\n", f.Function, f.File, f.Line)
			}
			if !more {
				break
			}
		}
		e.stack = b.String()
	})
	return e.stack
}
