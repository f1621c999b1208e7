package trigger

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/supervisor"
)

// Target is the child of a supervisor whose runs are started.
type Target struct {
	Supervisor *supervisor.Supervisor
	ID         string
	// spec starts the child if its supervisor has forgotten it, as supervisors do with
	// temporary children that have ended.
	spec supervisor.ChildSpec
	gate *runGate
}

// ErrSkipped is wrapped by the error of a trigger that starts no run. The text says why.
var ErrSkipped = errors.New("skipped")

// state returns the state of the child.
func (t Target) state() (supervisor.State, error) {
	info, err := t.Supervisor.Child(t.ID)
	if errors.Is(err, supervisor.ErrNotFound) {
		return supervisor.Stopped, nil
	}
	return info.State, err
}

// fire starts a run if the state of the agent permits one, and returns when it has begun.
// It calls before once that is decided. The error wraps ErrSkipped if no run is started, and a
// supervisor.RetryError if it waits for its quota.
func (t Target) fire(ctx context.Context, before func()) error {
	s, err := t.state()
	if err != nil {
		return skipped(err)
	}
	d := aidefile.Decide(aidefile.StateOf(s, false, nil))
	if !d.Run {
		return fmt.Errorf("%w: %s", ErrSkipped, d.Reason)
	}
	before()
	return skipped(t.begin(ctx))
}

// waits reports whether a run that was to begin waits for its quota. It begins later by itself.
func waits(err error) bool {
	_, ok := errors.AsType[*supervisor.RetryError](err)
	return ok
}

// shut closes the gate after a run has not begun because of err, so that no other start uses it. A run that
// waits, and one that begins after ctx has ended, still need it.
func (t Target) shut(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !waits(err) {
		t.gate.shut()
	}
}

// begin starts a run of an agent that is down, without asking whether it may. The error wraps a
// supervisor.RetryError if the run waits for its quota.
func (t Target) begin(ctx context.Context) error {
	t.gate.open()
	_, err := t.Supervisor.RestartChild(ctx, t.ID)
	if errors.Is(err, supervisor.ErrNotFound) {
		_, err = t.Supervisor.StartChild(ctx, t.spec)
	}
	t.shut(ctx, err)
	return err
}

// restartCounted ends the current run, or the delay before the next one, and starts a run
// that counts as a restart for the limit of the agent: see supervisor.RestartCounted.
func (t Target) restartCounted(ctx context.Context, cause error) error {
	t.gate.open()
	_, err := t.Supervisor.RestartCounted(ctx, t.ID, cause)
	t.shut(ctx, err)
	return err
}

// skipped makes an error of a supervisor ErrSkipped if the child was started by another
// caller meanwhile, or the tree is stopping.
func skipped(err error) error {
	for _, other := range []error{
		supervisor.ErrRunning, supervisor.ErrRestarting, supervisor.ErrAlreadyStarted, supervisor.ErrAlreadyPresent,
		supervisor.ErrStopping, supervisor.ErrNoSupervisor, supervisor.ErrPaused, supervisor.ErrTerminated,
	} {
		if errors.Is(err, other) {
			return fmt.Errorf("%w: %w", ErrSkipped, err)
		}
	}
	return err
}
