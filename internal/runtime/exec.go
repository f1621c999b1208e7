package runtime

import (
	"context"
	"errors"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// Executor is a Runtime that knows on which machine the commands of an agent run. Others run them on this one.
type Executor interface {
	// Exec is the function Exec on that machine. Its error wraps ErrUnknown if it is not known whether the command
	// has run, ErrFenced if it has not because that machine has no lease, and ErrNodeLost if that was lost meanwhile.
	Exec(ctx context.Context, l Launch, line func(proc.Line)) (last []string, err error)
}

// Exec runs a command of an agent, such as a hook, to its end, on the machine of the agent, and returns its last lines
// of output. The launch says whose command it is, by Path and Incarnation, and has its Argv, Dir, Env, Grace,
// NoNewPrivileges, Paths, User and Home; the rest is ignored. A runtime that is nil is one of this machine. line is
// called for each line of output, one call at a time, until Exec returns; it may be nil.
//
// The end of ctx ends the command: it is asked to, and killed after Grace. The error is the cause of ctx then, or else
// why the command could not be started, or how it ended unless that was exit code 0.
func Exec(ctx context.Context, in Runtime, l Launch, line func(proc.Line)) (last []string, err error) {
	if e, ok := in.(Executor); ok {
		return e.Exec(ctx, l, line)
	}
	return ExecHere(ctx, l, line)
}

// ExecHere is Exec on this machine. The command ends with this program at the latest.
func ExecHere(ctx context.Context, l Launch, line func(proc.Line)) (last []string, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p, err := proc.Start(proc.Command{
		Argv: l.Argv, Dir: l.Dir, Env: l.Env, NoNewPrivileges: l.NoNewPrivileges, Paths: l.Paths, User: l.User,
	}, proc.Output{Line: line})
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		grace := l.Grace
		if errors.Is(context.Cause(ctx), ErrFenced) {
			grace = 0 // the agent may run elsewhere soon
		}
		p.End(grace)
		<-p.Done()
		<-p.Drained()
		return p.LastOutput(), context.Cause(ctx)
	}
	<-p.Drained()
	if exit := p.Exit(); exit.Kind != supervisor.Normal {
		err = errors.New(exit.String())
	}
	return p.LastOutput(), err
}
