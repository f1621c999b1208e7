package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// stopOf returns why a call was stopped, from the error with which it has ended.
func stopOf(err error) agentcli.Stop {
	if stop := call.StopOf(err); stop != agentcli.NotStopped || err == nil {
		return stop
	}
	if _, ok := errors.AsType[*aidefile.Exhausted](err); ok {
		return agentcli.OverBudget
	}
	if _, ok := errors.AsType[*timedOut](err); ok {
		return agentcli.TookTooLong
	}
	return agentcli.ByOperator
}

// watch waits for the end of a program, and returns nil, or why it has to be ended before.
func (r *Runner) watch(ctx context.Context, p *proc.Process, o program) error {
	c := o.call
	var more, talked <-chan struct{}
	if c != nil {
		more = c.More()
	}
	if o.talk != nil {
		talked = o.talk.over
	}
	var lingers <-chan time.Time
	tick := time.NewTicker(r.checkInterval)
	defer tick.Stop()
	for over := false; ; {
		select {
		case <-p.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-talked:
			talked, lingers = nil, time.After(reapTime)
		case <-lingers:
			return call.ErrLingers
		case <-more:
			c.Poll()
			// It goes on after the tool that it calls, with another call of the model.
			if c.Report().Working > 0 && r.overspent() {
				return r.exhaustedNow()
			}
		case <-tick.C:
			if c == nil {
				continue
			}
			c.Poll()
			// A call that is about to end may do so until the next tick, so that its own
			// report counts.
			was := over
			if over = r.overspent(); over && (was || c.Report().Working > 0) {
				return r.exhaustedNow()
			}
			if err := c.Stale(r.linger, cmp.Or(r.file.Budget.Silence, aidefile.DefaultSilence)); err != nil {
				return err
			}
		}
	}
}

// overspent reports whether the current call uses more tokens than were left.
func (r *Runner) overspent() bool {
	used := r.used()
	r.storeRunning(used)
	return used > r.meter.Left() && !r.current.Report().Ended
}

// exhaustedNow returns the error of a call that has used more tokens than were left.
func (r *Runner) exhaustedNow() error {
	return aidefile.Overspent(agentcli.Add(r.meter.Used(), r.used()), r.meter.Tokens)
}
