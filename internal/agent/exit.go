package agent

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// End is the end of an incarnation.
type End struct {
	Who   token.Caller
	Agent *spec.Agent // as it was started
	Exit  supervisor.Exit
	Asked bool // it was asked to stop
	// Life distinguishes the incarnation from all others, also from those of other daemons. Began is when it was
	// started, and At when it has ended. Each is zero if it is not known.
	Life      string
	Began, At time.Time
	Env       Env // of the incarnation
}

// AnnotatedError adds notices of an incarnation that ended on its own to its error. It does not change
// the kind of the exit.
type AnnotatedError struct {
	Exit      error // nil if the exit was clean
	Announced bool  // the incarnation has reported STOPPING=1
	Status    string
	Errno     int
}

func (e *AnnotatedError) Error() string {
	switch {
	case e.Exit == nil:
		return "ended by itself, as announced"
	case e.Announced:
		return e.Exit.Error() + ", as announced"
	}
	return e.Exit.Error()
}

func (e *AnnotatedError) Unwrap() error { return e.Exit }

// AnnotateExit adds the notices of an incarnation to its exit. An exit code other than that of success
// is a failure in spite of STOPPING=1.
func AnnotateExit(exit supervisor.Exit, said sdnotify.Notice) supervisor.Exit {
	var process *proc.ExitError
	signalled := errors.As(exit.Err, &process) && process.Signal != 0
	var unhealthy *UnhealthyError
	e := &AnnotatedError{
		Exit: exit.Err, Status: said.Status, Errno: said.Errno,
		Announced: !said.Stopping.IsZero() && (exit.Clean() || signalled) && !errors.As(exit.Err, &unhealthy),
	}
	if e.Announced || exit.Err != nil && (e.Status != "" || e.Errno != 0) {
		exit.Err = e
	}
	return exit
}

// withoutNode returns the exit of an incarnation that has ended because its node has left the fleet. That says nothing
// about the agent: it is started again, and no limit counts it, unless it is never to be restarted.
func withoutNode(exit supervisor.Exit, restart supervisor.Restart) supervisor.Exit {
	if errors.Is(exit.Err, runtime.ErrDeadline) || errors.Is(exit.Err, runtime.ErrNodeLost) {
		exit.Err = retryNow(exit.Err, restart)
	}
	return exit
}

// noNodePause is the time after which an agent that no node takes is tried again, unless the nodes change before.
const noNodePause = time.Minute

// withoutLease returns the error of a start that was refused because the node has no lease now, or that no node takes,
// or whose node was lost.
func withoutLease(err error, restart supervisor.Restart) error {
	switch {
	case errors.Is(err, runtime.ErrNoNode): // it has not run: that it is never restarted says nothing here
		return &supervisor.RetryError{At: time.Now().Add(noNodePause), Err: err}
	case errors.Is(err, runtime.ErrFenced), errors.Is(err, runtime.ErrNodeLost):
		return retryNow(err, restart)
	}
	return err
}

func retryNow(err error, restart supervisor.Restart) error {
	if restart == supervisor.Temporary {
		return err
	}
	return &supervisor.RetryError{At: time.Now(), Err: err}
}

// UnhealthyError is the error of an incarnation that was killed because it was unhealthy. Its text is
// the reason alone, because the exit follows from that.
type UnhealthyError struct{ Reason, Exit error }

func (e *UnhealthyError) Error() string { return e.Reason.Error() }
func (e *UnhealthyError) Unwrap() []error {
	if e.Exit == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Exit}
}

// postMortemLines is the number of last lines of output in the event of an exit.
const postMortemLines = 10

// EventEnd describes an exit in an event.
func EventEnd(x supervisor.Exit) event.End {
	end := event.End{Exit: x.Kind.String()}
	var annotated *AnnotatedError
	if errors.As(x.Err, &annotated) {
		end.Announced, end.StatusText, end.Errno = annotated.Announced, annotated.Status, annotated.Errno
	}
	if x.Err != nil && !(x.Clean() && annotated != nil) {
		end.Error = x.Err.Error()
	}
	// Behind a wrapper, the error has the last output of the agent itself.
	var known interface {
		error
		LastOutput() []string
	}
	if errors.As(x.Err, &known) {
		end.LastOutput = known.LastOutput()
	}
	var process *proc.ExitError
	if !errors.As(x.Err, &process) {
		return end
	}
	if process.Signal != 0 {
		end.Signal = unix.SignalName(process.Signal)
	} else {
		end.Code = &process.Code
	}
	if known == nil {
		end.LastOutput = slices.Clone(process.LastOutput[max(0, len(process.LastOutput)-postMortemLines):])
		for i, line := range end.LastOutput {
			end.LastOutput[i] = plaintext.Line(line)
		}
	}
	return end
}
