package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// Environment variables of hooks, in addition to those of their agent.
const (
	hookEnv       = proc.EnvPrefix + "HOOK"
	exitEnv       = proc.EnvPrefix + "EXIT"
	exitReasonEnv = proc.EnvPrefix + "EXIT_REASON"
	exitCodeEnv   = proc.EnvPrefix + "EXIT_CODE"
	exitSignalEnv = proc.EnvPrefix + "EXIT_SIGNAL"
)

// hookGrace is the time between asking a hook to end and killing it.
const hookGrace = 2 * time.Second

// hookRunner runs the hooks of an incarnation.
type hookRunner struct {
	m     *Manager
	ctx   context.Context // ends when the supervisor asks the incarnation to stop
	agent *spec.Agent
	home  runtime.Runtime // of the agent; nil: its hooks run on this machine
	as    Identity
	who   token.Caller
	env   Env       // empty until it is known
	began time.Time // of an incarnation that is lost
}

// RunHook runs a command of an agent on this machine, as a hook that belongs to no incarnation.
func (m *Manager) RunHook(
	ctx context.Context, path string, a *spec.Agent, name string, h spec.Hook, env []string,
) error {
	as, err := m.Identity(a)
	if err != nil {
		return err
	}
	own, _ := as.Environ(a, proc.Self{Agent: path})
	own.Vars = append(own.Vars, env...)
	r := &hookRunner{m: m, agent: a, as: as, who: token.Caller{Path: path}, env: own}
	r.run(ctx, name, h)
	return nil
}

// run runs a hook, if there is one, and logs the result. The error is the reason of its failure. The
// end of ctx ends the hook.
func (h *hookRunner) run(ctx context.Context, name string, hook spec.Hook, env ...string) error {
	if !hook.Exists() {
		return nil
	}
	begun := time.Now()
	last, err := h.execute(ctx, name, hook, env)
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), errDetached) {
		return err // the next daemon runs it again
	}
	data := map[string]any{"hook": name, "seconds": time.Since(begun).Seconds()}
	entry := event.Event{
		Type: event.AgentHook, Path: h.who.Path, Incarnation: h.who.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s %s has run", h.who.Path, name),
	}
	if err != nil {
		entry.Type, entry.Message = event.AgentHookFailed, fmt.Sprintf("%s %s failed: %v", h.who.Path, name, err)
		data["error"] = err.Error()
	}
	if len(last) > 0 {
		for i := range last {
			last[i] = plaintext.Line(last[i])
		}
		data["last_output"] = last
	}
	h.m.Log.Append(entry.With(data))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// execute runs the command of a hook and returns its last output.
func (h *hookRunner) execute(
	ctx context.Context, name string, hook spec.Hook, env []string,
) (last []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hook.Timeout, fmt.Errorf("it has not ended within %v", hook.Timeout))
	defer cancel()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var line func(proc.Line)
	if write := h.m.Output; write != nil {
		line = func(l proc.Line) { write(h.who.Path, h.who.Incarnation, l) }
	}
	vars := append(append(slices.Clip(h.env.Vars), hookEnv+"="+name), env...)
	l := h.as.command(h.agent, h.who, hook.Command, Env{vars, h.env.Inherited})
	l.Grace = hookGrace
	return runtime.Exec(ctx, h.home, l, line)
}

// RunCommand runs a command of an agent to its end where the agent runs, and returns its last output. It has no token,
// so it cannot act as the agent. The end of ctx kills it.
func (m *Manager) RunCommand(
	ctx context.Context, a *spec.Agent, who token.Caller, argv []string, env ...string,
) (last []string, err error) {
	as, err := m.Identity(a)
	if err != nil {
		return nil, err
	}
	own, _ := as.Environ(a, proc.Self{Agent: who.Path, Incarnation: who.Incarnation})
	own.Vars = append(own.Vars, env...)
	return runtime.Exec(ctx, m.runtimes[a.Runtime.String()], as.command(a, who, argv, own), nil)
}

// command returns what runs a command of an agent.
func (i Identity) command(a *spec.Agent, who token.Caller, argv []string, env Env) runtime.Launch {
	return runtime.Launch{
		Path: who.Path, Incarnation: who.Incarnation, Argv: argv, Dir: a.Dir, Env: env.Vars, Inherited: env.Inherited,
		Home:            a.Home,
		NoNewPrivileges: a.NoNewPrivileges, User: i.User, Paths: landlock.New(a.ReadWritePaths, a.ReadOnlyPaths),
	}
}

// failed runs the on_error hook.
func (h *hookRunner) failed(ctx context.Context, exit supervisor.Exit) {
	for _, l := range h.m.Listeners {
		if l.Fail != nil {
			l.Fail(h.who)
		}
	}
	h.run(ctx, "on_error", h.agent.Hooks.Error, exitEnviron(exit)...)
}

// exitEnviron returns the variables that describe an exit to a hook.
func exitEnviron(exit supervisor.Exit) []string {
	env := []string{exitEnv + "=" + exit.Kind.String(), exitReasonEnv + "=" + plaintext.Line(exit.String())}
	var process *proc.ExitError
	if errors.As(exit.Err, &process) {
		if process.Signal != 0 {
			env = append(env, exitSignalEnv+"="+unix.SignalName(process.Signal))
		} else {
			env = append(env, exitCodeEnv+"="+strconv.Itoa(process.Code))
		}
	}
	return env
}

// exit describes an exit of the incarnation.
func (h *hookRunner) exit(x supervisor.Exit, asked bool) Exit {
	return Exit{Exit: x, Asked: asked, Draining: h.m.Drains.IsDraining(h.who.Path, h.who.Incarnation)}
}

// died runs the on_death hook, unless the exit was the clean end of a drain.
func (h *hookRunner) died(ctx context.Context, exit supervisor.Exit) {
	if h.exit(exit, false).Died() {
		h.run(ctx, "on_death", h.agent.Hooks.Death, exitEnviron(exit)...)
	}
}

// classify returns the exit with what the incarnation has reported about its end.
func (h *hookRunner) classify(e End) supervisor.Exit {
	if !e.Asked {
		e.Exit = withoutNode(e.Exit, h.agent.Restart)
	}
	if h.m.Classify == nil {
		return e.Exit
	}
	e.Who, e.Agent, e.Env = h.who, h.agent, h.env
	if e.Began.IsZero() {
		e.Began = h.began
	}
	return h.m.Classify(e)
}

// ended cleans up after the incarnation.
func (h *hookRunner) ended(exit supervisor.Exit, asked bool) {
	h.m.ended(h.who, h.exit(exit, asked))
	h.m.Drains.AwaitStop(h.ctx, h.who.Path, h.who.Incarnation)
}

// lifecycle returns the hooks of an incarnation that runs.
func (h *hookRunner) lifecycle() lifecycleHooks {
	all := lifecycleHooks{classify: h.classify, ended: h.ended}
	if hook := h.agent.Hooks.Resting; hook.Exists() {
		all.beforeStop = func(ctx context.Context) { h.run(ctx, "on_resting", hook) }
	}
	if h.agent.Hooks.Error.Exists() {
		all.failed = h.failed
	}
	if h.agent.Hooks.Death.Exists() {
		all.died = h.died
	}
	return all
}

// started runs the on_start hook of an incarnation that is ready. If the hook fails, the incarnation
// is stopped.
func (h *hookRunner) started(ctx context.Context, s runtime.Session) error {
	err := h.run(ctx, "on_start", h.agent.Hooks.Start)
	if err == nil || isClosed(s.Done()) { // how it ended says more
		return nil
	}
	if e := Evict(context.WithoutCancel(ctx), h.home, h.who.Path, h.agent.Shutdown.Grace); e != nil {
		err = errors.Join(err, e)
	}
	return fmt.Errorf("%w: %w", supervisor.ErrNotReady, err)
}
