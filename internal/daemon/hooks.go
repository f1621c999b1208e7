package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Variables that hooks find beside those of their agent.
const (
	hookEnv       = proc.EnvPrefix + "HOOK"
	exitEnv       = proc.EnvPrefix + "EXIT"
	exitReasonEnv = proc.EnvPrefix + "EXIT_REASON"
	exitCodeEnv   = proc.EnvPrefix + "EXIT_CODE"
	exitSignalEnv = proc.EnvPrefix + "EXIT_SIGNAL"
)

// hookGrace is how long a hook that has to end may take before it is killed.
const hookGrace = 2 * time.Second

// life is an incarnation as its hooks see it.
type life struct {
	c     *Controller
	ctx   context.Context // ends when the supervisor asks the incarnation to stop
	agent *spec.Agent
	as    identity
	self  supervisor.Self
	env   []string
}

// run runs a hook, if there is one, and tells how it went. Its error says why
// it has failed. The end of ctx ends it.
func (l *life) run(ctx context.Context, name string, h spec.Hook, more ...string) error {
	if !h.Exists() {
		return nil
	}
	begun := time.Now()
	last, err := l.perform(ctx, name, h, more)
	if ctx.Err() != nil && context.Cause(ctx) == errLetGo {
		return err // the next controller runs it again
	}
	data := map[string]any{"hook": name, "seconds": time.Since(begun).Seconds()}
	entry := event.Event{
		Type: event.AgentHook, Path: l.self.Path, Incarnation: l.self.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s %s has run", l.self.Path, name),
	}
	if err != nil {
		entry.Type, entry.Message = event.AgentHookFailed, fmt.Sprintf("%s %s failed: %v", l.self.Path, name, err)
		data["error"] = err.Error()
	}
	if len(last) > 0 {
		for i := range last {
			last[i] = proc.Plain(last[i])
		}
		data["last_output"] = last
	}
	l.c.log.Append(entry.With(data))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (l *life) perform(ctx context.Context, name string, h spec.Hook, more []string) (last []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, fmt.Errorf("it has not ended within %v", h.Timeout))
	defer cancel()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var out proc.Output
	if tell := l.c.opts.Output; tell != nil {
		out.Line = func(line proc.Line) { tell(l.self.Path, l.self.Incarnation, line) }
	}
	p, err := proc.Start(proc.Command{
		Argv: h.Command, Dir: l.agent.Dir, Env: append(append(slices.Clip(l.env), hookEnv+"="+name), more...),
		NoNewPrivileges: l.agent.NoNewPrivileges, User: l.as.user,
	}, out)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.End(hookGrace)
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

// failed runs what is to be run after a failure.
func (l *life) failed(ctx context.Context, exit supervisor.Exit) {
	l.c.health.Incarnation(api.Caller{Path: l.self.Path, Incarnation: l.self.Incarnation}).SetFailed()
	l.run(ctx, "on_error", l.agent.Hooks.Error, exitEnviron(exit)...)
}

// exitEnviron is what hooks are told of an end.
func exitEnviron(exit supervisor.Exit) []string {
	more := []string{exitEnv + "=" + exit.Kind.String(), exitReasonEnv + "=" + proc.Plain(exit.String())}
	var process *proc.ExitError
	if errors.As(exit.Err, &process) {
		if process.Signal != 0 {
			more = append(more, exitSignalEnv+"="+unix.SignalName(process.Signal))
		} else {
			more = append(more, exitCodeEnv+"="+strconv.Itoa(process.Code))
		}
	}
	return more
}

// died runs what is to be run when an instance of a pool has ended, if that was a death.
func (l *life) died(ctx context.Context, exit supervisor.Exit) {
	if pool.IsDeath(false, l.draining(), exit.Clean()) {
		l.run(ctx, "on_death", l.agent.Hooks.Death, exitEnviron(exit)...)
	}
}

// draining reports whether the incarnation has been asked to finish.
func (l *life) draining() bool {
	return l.c.drains.IsDraining(l.self.Path, l.self.Incarnation)
}

// over clears up after the incarnation.
func (l *life) over(exit supervisor.Exit, asked bool) {
	l.c.over(l.self.Path, l.self.Incarnation, failureOf(exit, asked, l.draining()))
	l.c.drains.AwaitStop(l.ctx, l.self.Path, l.self.Incarnation)
}

// turns are those that an incarnation takes once it runs.
func (l *life) turns() turns {
	t := turns{over: l.over}
	if h := l.agent.Hooks.Resting; h.Exists() {
		t.rest = func(ctx context.Context) { l.run(ctx, "on_resting", h) }
	}
	if l.agent.Hooks.Error.Exists() {
		t.failed = l.failed
	}
	if l.agent.Hooks.Death.Exists() {
		t.died = l.died
	}
	return t
}

// started runs what is to be run when an incarnation is ready. If that fails,
// the incarnation does not stay.
func (l *life) started(ctx context.Context, s runtime.Session) error {
	err := l.run(ctx, "on_start", l.agent.Hooks.Start)
	if err == nil {
		return nil
	}
	select {
	case <-s.Done():
		return nil // what its end is like says more
	default:
	}
	ending := context.WithoutCancel(ctx)
	if e := evict(ending, l.c.places[l.agent.Runtime.String()], l.self.Path, l.agent.Shutdown.Grace); e != nil {
		err = errors.Join(err, e)
	}
	return fmt.Errorf("%w: %w", supervisor.ErrNotReady, err)
}
