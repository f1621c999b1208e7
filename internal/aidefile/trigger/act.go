package trigger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/supervisor"
)

// Act carries out an action that a person or an order has asked for. It first calls before with the
// state of the agent, and returns its error if that reports done. restartCounted restarts the agent
// as its limit allows. The context of a restart must not end before the restart is done.
func (m *Manager) Act(ctx context.Context, path string, action control.Action,
	before func(info supervisor.ChildInfo, restartCounted func(cause error) error) (done bool, err error)) error {
	a := m.of(path)
	if a == nil {
		return fmt.Errorf("%s: %w", path, api.ErrNotFound)
	}
	a.starting.Lock()
	defer a.starting.Unlock()
	t, err := m.target(path, a)
	if err != nil {
		return err
	}
	info, err := t.Supervisor.Child(t.ID)
	forgotten := errors.Is(err, supervisor.ErrNotFound)
	if err != nil && !forgotten {
		return err
	}
	if !forgotten {
		restartCounted := func(cause error) error { return t.restartCounted(ctx, cause) }
		if done, err := before(info, restartCounted); done {
			return err
		}
	}
	switch action {
	case control.Stop:
		return m.stop(ctx, path, a, t, forgotten, supervisor.ReasonStopped)
	case control.Suspend:
		return m.stop(ctx, path, a, t, forgotten, supervisor.ReasonSuspended)
	case control.Start:
		return m.start(ctx, path, a, t, info, forgotten)
	case control.Resume:
		return resume(ctx, a, t, info, forgotten)
	case control.Restart:
		return m.restart(ctx, path, a, t, forgotten)
	case control.Reset:
		return m.reset(ctx, path, a, t, info, forgotten)
	}
	return fmt.Errorf("%w: unknown action %q, expected start, stop, restart, reset, suspend or resume",
		api.ErrInvalid, action)
}

// stop stops an agent. If its supervisor has forgotten it, it is held: its triggers are
// ignored, also by the next daemon.
func (m *Manager) stop(ctx context.Context, path string, a *agent, t Target, forgotten bool,
	why supervisor.Reason) error {
	if !forgotten {
		err := t.Supervisor.SuspendChild(ctx, t.ID, why)
		if err == nil {
			t.gate.forget()
		}
		if !errors.Is(err, supervisor.ErrNotFound) {
			return err
		}
	}
	a.hold(why)
	m.Agents.Hold(path, why)
	return nil
}

// start starts a run of an agent that is down.
func (m *Manager) start(ctx context.Context, path string, a *agent, t Target, info supervisor.ChildInfo,
	forgotten bool) error {
	switch {
	case forgotten, info.State == supervisor.Stopped, info.State == supervisor.Suspended:
		m.recordFired(path, a, manualRequest())
		return t.begin(ctx)
	case info.State == supervisor.GivenUp:
		return a.startOver(ctx, t)
	}
	return control.StartChild(ctx, t.Supervisor, info)
}

// resume makes an agent wait for its triggers again.
func resume(ctx context.Context, a *agent, t Target, info supervisor.ChildInfo, forgotten bool) error {
	a.hold(supervisor.NoReason)
	switch {
	case forgotten, info.State != supervisor.Suspended && info.State != supervisor.Paused:
		return nil
	case info.State == supervisor.Paused:
		return t.Supervisor.Resume()
	}
	_, err := t.Supervisor.RestartChild(ctx, t.ID) // the gate lets no run begin
	return err
}

// restart ends the current run and starts another one with the same request.
func (m *Manager) restart(ctx context.Context, path string, a *agent, t Target, forgotten bool) error {
	defer t.Supervisor.Hold()()
	if !forgotten {
		if err := t.Supervisor.SuspendChild(ctx, t.ID, supervisor.ReasonManual); err != nil &&
			!errors.Is(err, supervisor.ErrNotFound) {
			return err
		}
	}
	m.recordFired(path, a, a.currentRequest())
	return t.begin(ctx)
}

// reset clears the restarts, the tokens used by the chain, and the issues of an agent.
func (m *Manager) reset(ctx context.Context, path string, a *agent, t Target, info supervisor.ChildInfo,
	forgotten bool) error {
	a.resetChain()
	busy := !forgotten && info.State != supervisor.Stopped && info.State != supervisor.Suspended
	m.resetIssues(path, a, busy)
	switch {
	case forgotten:
		return nil
	case info.State == supervisor.GivenUp:
		return a.startOver(ctx, t)
	}
	return t.Supervisor.Reset(t.ID)
}

// resetChain begins a new chain of runs, which has used no tokens.
func (a *agent) resetChain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.request.Chain = time.Now()
	a.unsaved = a.unsaved || !a.request.Fired.IsZero()
}

// startOver starts a run of an agent that was given up, as if it had never failed.
func (a *agent) startOver(ctx context.Context, t Target) error {
	a.resetChain()
	if err := t.Supervisor.TerminateChild(ctx, t.ID); err != nil {
		return err
	}
	if err := t.Supervisor.Reset(t.ID); err != nil {
		return err
	}
	return t.begin(ctx)
}
