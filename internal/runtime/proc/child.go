package proc

import (
	"context"
	"fmt"

	"github.com/coppice-dev/coppice/supervisor"
)

// Child makes the Start function of a supervisor.ChildSpec. Each call asks
// prepare what to run (its context tells which incarnation that is), starts
// it and waits until ready says so; a nil ready is satisfied by a program that
// could be loaded.
//
// The start fails when the process ends before it is ready (an error that
// wraps supervisor.ErrNotReady and the *ExitError) or when ctx is done first
// (an error that wraps its cause and says what the probe saw last). By then the
// process has been stopped: stop signal, Command.Grace, SIGKILL.
func Child(prepare func(context.Context) (Command, Output, error), ready Probe) func(context.Context) (supervisor.Process, error) {
	return func(ctx context.Context) (supervisor.Process, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		cmd, out, err := prepare(ctx)
		if err != nil {
			return nil, err
		}
		p, err := startReady(ctx, cmd, out, ready)
		if err != nil {
			return nil, err // and no *Process that is nil in an interface that is not
		}
		return p, nil
	}
}

func startReady(ctx context.Context, cmd Command, out Output, ready Probe) (*Process, error) {
	p, await, err := Begin(cmd, out, ready)
	if err != nil {
		return nil, err
	}
	if err = await(ctx); err != nil {
		if !p.End(cmd.grace()) {
			err = fmt.Errorf("%w; process %d could not be killed", err, p.pid)
		}
		return nil, err
	}
	return p, nil
}

// Begin is Start for those who have something to do before the process is
// ready. The function that it returns must be called, once: it waits and fails
// as the start function of Child does, but leaves it to the caller to stop the
// process then.
func Begin(cmd Command, out Output, ready Probe) (*Process, func(context.Context) error, error) {
	if ready == nil {
		p, err := Start(cmd, out)
		return p, func(context.Context) error { return nil }, err
	}
	await, drop, err := Arm(ready, &cmd, &out)
	if err != nil {
		return nil, nil, err
	}
	p, err := Start(cmd, out)
	if err != nil {
		drop()
		return nil, nil, err
	}
	return p, func(ctx context.Context) error { return await(ctx, p) }, nil
}
