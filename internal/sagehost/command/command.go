// Package command runs the commands of Sage programs as processes of this host.
package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/supervisor"
)

// Runner implements host.Commands.
type Runner struct {
	Prepare func(*proc.Command) // changes a command before it is run; may be nil
}

// RunCommand runs a command until it exits.
func (r Runner) RunCommand(ctx context.Context, c host.Command) (host.CommandResult, error) {
	cmd := proc.Command{Argv: c.Argv, Dir: c.Dir, Env: c.Env}
	if r.Prepare != nil {
		r.Prepare(&cmd)
	}
	ran, err := proc.Run(ctx, cmd, c.Stdin, c.Limit)
	return resultOf(ran, err)
}

// resultOf converts the result of a command.
func resultOf(r proc.Result, err error) (host.CommandResult, error) {
	result := host.CommandResult{Stdout: r.Stdout, Stderr: r.Stderr}
	switch {
	case errors.Is(err, proc.ErrCommand):
		return result, &failure{host.ErrNotStarted, err}
	case errors.Is(err, proc.ErrTooMuchOutput):
		return result, &failure{host.ErrTooMuchOutput, err}
	case err != nil || r.Exit.Kind == supervisor.Normal:
		return result, err
	}
	exit, ok := errors.AsType[*proc.ExitError](r.Exit.Err)
	if !ok {
		return result, fmt.Errorf("%v", r.Exit)
	}
	result.ExitCode, result.Failure = exit.Code, exit.Error()
	if exit.Signal != 0 {
		result.ExitCode = 128 + int(exit.Signal)
	}
	return result, nil
}

// failure is an error of proc that also is one of package host.
type failure struct{ kind, err error }

func (f *failure) Error() string   { return f.err.Error() }
func (f *failure) Unwrap() []error { return []error{f.kind, f.err} }
