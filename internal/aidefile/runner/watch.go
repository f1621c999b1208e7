package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// linger is how long a command may stay after it has reported its end.
const linger = 10 * time.Second

// errLingers is why a command is ended that has reported its end.
var errLingers = errors.New("it has reported its end, and its process stays")

// silentError is why a command is ended that has written nothing for too long.
type silentError struct{ after time.Duration }

func (e *silentError) Error() string { return fmt.Sprintf("the model was silent for %v", e.after) }

// stopOf returns why a call was stopped, from the error with which it has ended.
func stopOf(err error) agentcli.Stop {
	switch {
	case err == nil:
		return agentcli.NotStopped
	case errors.Is(err, errLingers):
		return agentcli.AfterItsEnd
	}
	if _, ok := errors.AsType[*silentError](err); ok {
		return agentcli.Silent
	}
	if _, ok := errors.AsType[*aidefile.Exhausted](err); ok {
		return agentcli.OverBudget
	}
	if _, ok := errors.AsType[*timedOut](err); ok {
		return agentcli.TookTooLong
	}
	return agentcli.ByOperator
}

// watch waits for the end of a program, and returns nil, or why it has to be ended before. o is the output of a
// call of the command; nil for other programs.
func (r *Runner) watch(ctx context.Context, p *proc.Process, o *output) error {
	var more <-chan struct{}
	if o != nil {
		more = o.more
	}
	tick := time.NewTicker(r.checkInterval)
	defer tick.Stop()
	for over := false; ; {
		select {
		case <-p.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-more:
			o.follow()
			// It goes on after the tool that it calls, with another call of the model.
			if o.report().Working > 0 && r.overspent() {
				return r.exhaustedNow()
			}
		case <-tick.C:
			if o == nil {
				continue
			}
			o.follow()
			// A call that is about to end may do so until the next tick, so that its own
			// report counts.
			was := over
			if over = r.overspent(); over && (was || o.report().Working > 0) {
				return r.exhaustedNow()
			}
			if err := r.stale(o); err != nil {
				return err
			}
		}
	}
}

// overspent reports whether the current call uses more tokens than were left.
func (r *Runner) overspent() bool {
	used := r.used()
	r.storeRunning(used)
	return used > r.meter.Left() && !r.output.report().Ended
}

// exhaustedNow returns the error of a call that has used more tokens than were left.
func (r *Runner) exhaustedNow() error {
	return aidefile.Overspent(agentcli.Add(r.meter.Used(), r.used()), r.meter.Tokens)
}

// stale returns why a call is ended that writes nothing: it has reported its end, or its model is silent while no
// tool works. Silence means nothing of a command that is not known, such as a script that goes on with something
// else, of one that does not report on the way, and of opencode, which does not tell when a tool begins.
func (r *Runner) stale(o *output) error {
	cli, report, quiet := o.stream.CLI, o.report(), o.quiet()
	script := agentcli.Detect(r.request.Settings.Command) == agentcli.Plain // whatever it calls
	if script || cli == agentcli.Plain || !report.Seen {
		return nil
	}
	if report.Ended && quiet > r.linger {
		return errLingers
	}
	most := cmp.Or(r.file.Budget.Silence, aidefile.DefaultSilence)
	if cli != agentcli.Opencode && report.Working == 0 && quiet > most {
		return &silentError{most}
	}
	return nil
}
