package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// Grace is the time between the stop signal and the kill of a program that Run has to end. It is less than the grace
// period of the process that calls Run, which is proc.DefaultGrace if none is configured.
const Grace = 3 * time.Second

const (
	checkInterval = 500 * time.Millisecond
	reapTime      = time.Second // between the end of a conversation and the stop signal
)

// Program is a program to run to its end.
type Program struct {
	proc.Command
	// Output gets what the program writes, as it was written: see proc.Output.Raw. It must be set.
	Output func(s proc.Stream, data []byte)
	// Call is the call that the program is. Run passes on to it what the program writes, and looks at the files of its
	// session; the caller calls Finish. If Call is nil, only ctx ends the program, and Silence, Linger, Check and
	// Interval have no effect.
	Call *Call
	// Silence and Linger are the limits of Call.Stale; Linger is the constant if it is zero.
	Silence, Linger time.Duration
	// Check returns an error if the call has used more than it may. It is called in the goroutine of Run, after a look
	// at the call. Nil means no limit.
	Check func() error
	// Interval is the time between two looks at the call; 500 ms if zero.
	Interval time.Duration
	// Talk is the conversation that the program holds over its standard input and output; nil if it holds none. With a
	// Talk, the standard output is not passed on to Call.
	Talk Talk
}

// Talk is a conversation with a program.
type Talk interface {
	// Started is called once the program has been started.
	Started(p *proc.Process)
	// Stop asks for the end of the conversation, in bounded time, before the program gets the stop signal.
	Stop()
	// Over returns a channel that is closed when the conversation is over. After the end of the program, that is soon.
	Over() <-chan struct{}
}

// StoppedError is the error of Run for a program that it had to end. Its text is that of Err.
type StoppedError struct {
	Stop agentcli.Stop // ByOperator, OverBudget, Silent, TookTooLong or AfterItsEnd
	Err  error         // the cause of the context, or the error of Program.Check or Call.Stale
}

func (e *StoppedError) Error() string { return e.Err.Error() }
func (e *StoppedError) Unwrap() error { return e.Err }

// Run runs a program to its end, until all that it has written was passed on, and returns how it has ended. A program
// that fails is no error of Run. It ends the program early
//
//   - when ctx ends: TookTooLong at its deadline, else ByOperator;
//   - when its call is stale, or its conversation is over and it stays: Silent or AfterItsEnd;
//   - when Check returns an error: OverBudget. Then it is killed at once, since a program that is asked to end could
//     begin another call of the model. Check may fail once if no tool works, so that a call that is about to end can
//     report its own end.
//
// The error is a *StoppedError then, or wraps one if the program could not be killed. Any other error is that of
// proc.Start: the program has not run, and the Exit is zero.
func Run(ctx context.Context, o Program) (supervisor.Exit, error) {
	if ctx.Err() != nil {
		return supervisor.Exit{}, stoppedBy(ctx)
	}
	p, err := proc.Start(o.Command, proc.Output{Tail: -1, Raw: o.pass})
	if err != nil {
		return supervisor.Exit{}, err
	}
	if o.Talk != nil {
		o.Talk.Started(p)
	}
	why := o.watch(ctx, p)
	switch {
	case why == nil:
	case why.Stop == agentcli.OverBudget:
		p.Kill()
	default:
		if o.Talk != nil {
			o.Talk.Stop()
		}
		p.End(Grace)
	}
	select {
	case <-p.Done():
	case <-time.After(supervisor.KillGrace):
		return supervisor.Exit{}, fmt.Errorf("%w; and process %d has not ended after it was killed", why, p.PID())
	}
	<-p.Drained()
	if o.Talk != nil {
		<-o.Talk.Over()
	}
	if why != nil {
		return p.Exit(), why
	}
	return p.Exit(), nil
}

// stoppedBy returns the reason to end a program whose context has ended.
func stoppedBy(ctx context.Context) *StoppedError {
	stop := agentcli.ByOperator
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		stop = agentcli.TookTooLong
	}
	return &StoppedError{stop, context.Cause(ctx)}
}

// pass passes on what the program has written.
func (o *Program) pass(s proc.Stream, data []byte) {
	o.Output(s, data)
	switch {
	case o.Call == nil:
	case s == proc.Stderr:
		o.Call.WriteError(data)
	case o.Talk == nil:
		o.Call.Write(data)
	}
}

// watch waits for the end of the program, and returns nil, or why it has to be ended before.
func (o *Program) watch(ctx context.Context, p *proc.Process) *StoppedError {
	c := o.Call
	var more, talked <-chan struct{}
	var looks, lingers <-chan time.Time
	if c != nil {
		tick := time.NewTicker(cmp.Or(o.Interval, checkInterval))
		defer tick.Stop()
		more, looks = c.More(), tick.C
	}
	if o.Talk != nil {
		talked = o.Talk.Over()
	}
	for was := false; ; {
		select {
		case <-p.Done():
			return nil
		case <-ctx.Done():
			return stoppedBy(ctx)
		case <-talked:
			talked, lingers = nil, time.After(reapTime)
		case <-lingers:
			return &StoppedError{agentcli.AfterItsEnd, ErrLingers}
		case <-more:
			c.Poll()
			// It goes on after the tool that it calls, with another call of the model.
			if c.Report().Working > 0 {
				if err := o.over(); err != nil {
					return &StoppedError{agentcli.OverBudget, err}
				}
			}
		case <-looks:
			c.Poll()
			// A call that is about to end may do so until the next look, so that its own report counts.
			err := o.over()
			if err != nil && (was || c.Report().Working > 0) {
				return &StoppedError{agentcli.OverBudget, err}
			}
			was = err != nil
			if err := c.Stale(cmp.Or(o.Linger, Linger), o.Silence); err != nil {
				return &StoppedError{StopOf(err), err}
			}
		}
	}
}

// over returns an error if the call has used more than it may and goes on.
func (o *Program) over() error {
	if o.Check == nil {
		return nil
	}
	if err := o.Check(); err != nil && !o.Call.Report().Ended {
		return err
	}
	return nil
}
