// Package ready decides when a process that was started is ready: by its output, by what listens or
// answers, by a command, or by what it says itself (sd_notify(3)).
//
// Begin starts a process with a Probe. A port that another process holds does not make an agent ready
// (ForeignError).
package ready

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Probe determines when a started process is ready. The set of types is closed: Log, TCP, HTTP,
// Exec and Notify.
type Probe interface {
	// arm prepares the probe for one start. It may add to the command and the output.
	arm(cmd *proc.Command, out *proc.Output) (waitFunc, error)
}

// waitFunc waits for the readiness of one incarnation. It returns nil when the process is ready,
// and the problem that it saw last when ctx is done.
type waitFunc func(ctx context.Context, p Subject) error

// ProbeOf returns the Probe for an agent's condition; nil if it has none. on is needed for the
// condition Notify only.
func ProbeOf(r spec.Ready, on *NotifySocket) (Probe, error) {
	switch {
	case r.Log != "":
		re, err := regexp.Compile(r.Log)
		if err != nil {
			return nil, fmt.Errorf("ready.log: %w", err)
		}
		return Log{Pattern: re}, nil
	case r.TCP != "":
		return TCP{Address: r.TCP}, nil
	case r.HTTP != "":
		return HTTP{URL: r.HTTP}, nil
	case len(r.Exec) > 0:
		return Exec{Argv: r.Exec}, nil
	case r.Notify:
		return Notify{On: on}, nil
	}
	return nil, nil
}

// Subject is the process whose readiness is awaited: a *proc.Process, or one that another package
// started.
type Subject interface {
	PID() int
	Done() <-chan struct{}
	Exit() supervisor.Exit // valid after Done is closed
}

// Begin is proc.Start with a readiness condition; a nil probe succeeds as soon as the program is
// loaded. The returned function must be called once. It waits until the process is ready.
//
// It fails if the process ends before that, with an error that wraps supervisor.ErrNotReady and
// the *proc.ExitError. If its context is done first, the error wraps the cause and says what the
// probe saw last. Then the caller must stop the process.
func Begin(cmd proc.Command, out proc.Output, probe Probe) (*proc.Process, func(context.Context) error, error) {
	await := func(context.Context, Subject) error { return nil }
	if probe != nil {
		var err error
		if await, err = Arm(probe, &cmd, &out); err != nil {
			return nil, nil, err
		}
	}
	p, err := proc.Start(cmd, out)
	return p, func(ctx context.Context) error { return await(ctx, p) }, err
}

// Arm prepares a Probe for a start that another package carries out. It may add to the
// environment of cmd, and wraps the Line function of out. The returned function waits and fails
// as that of Begin does.
func Arm(probe Probe, cmd *proc.Command, out *proc.Output) (func(context.Context, Subject) error, error) {
	wait, err := probe.arm(cmd, out)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, p Subject) error { return awaitReady(ctx, p, wait) }, nil
}

// errEnded is the cause that cancels a wait when the process ends.
var errEnded = errors.New("process ended")

// awaitReady waits until the process is ready, until it ends, or until ctx is done.
func awaitReady(ctx context.Context, p Subject, wait waitFunc) error {
	wctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Done():
			cancel(errEnded)
		case <-wctx.Done():
		}
	}()
	last := wait(wctx, p)
	switch {
	case last == nil:
		return nil
	case errors.Is(context.Cause(wctx), errEnded):
		e := p.Exit()
		err := e.Err
		if err == nil {
			err = errors.New(e.String())
		}
		var foreign *ForeignError
		if errors.As(last, &foreign) { // this may be why it has ended
			return fmt.Errorf("%w: %w; %w", supervisor.ErrNotReady, err, foreign)
		}
		return fmt.Errorf("%w: %w", supervisor.ErrNotReady, err)
	case errors.Is(context.Cause(ctx), supervisor.ErrStartTimeout):
		return fmt.Errorf("%w: %w", context.Cause(ctx), last)
	case ctx.Err() != nil:
		return fmt.Errorf("not ready: %w; %w", context.Cause(ctx), last)
	}
	return last
}
