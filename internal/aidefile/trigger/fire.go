package trigger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/supervisor"
)

// manualRequest returns the request of a run that a person starts without a task.
func manualRequest() runner.RunRequest {
	return runner.RunRequest{Trigger: aidefile.Trigger{}.String(), Task: aidefile.Trigger{}.Task()}
}

// fire starts a run of an agent if one may begin, and records an event either way. The
// error wraps ErrSkipped if none may, and a supervisor.RetryError if it waits for its quota.
func (m *Manager) fire(ctx context.Context, path string, q runner.RunRequest) error {
	a := m.of(path)
	if a == nil {
		return fmt.Errorf("%w: %s has no Aidefile, and no triggers", api.ErrInvalid, path)
	}
	err := m.tryFire(ctx, path, a, q)
	select {
	case <-m.Stopping:
		return err // a daemon that stops logs no event
	default:
	}
	if errors.Is(err, ErrSkipped) && ctx.Err() == nil {
		m.recordSkipped(path, q, strings.TrimPrefix(err.Error(), ErrSkipped.Error()+": "), 0)
	}
	return err
}

func (m *Manager) tryFire(ctx context.Context, path string, a *agent, q runner.RunRequest) error {
	if !a.starting.TryLock() {
		return fmt.Errorf("%w: another run of it is being started", ErrSkipped)
	}
	defer a.starting.Unlock()
	if a.isHeld() {
		return fmt.Errorf("%w: %s", ErrSkipped, aidefile.Decide(aidefile.Stopped).Reason)
	}
	if m.Agents.IsDraining(path) {
		return fmt.Errorf("%w: it is being drained", ErrSkipped)
	}
	t, err := m.target(path, a)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSkipped, err)
	}
	return t.fire(ctx, func() { m.recordFired(path, a, q) })
}

// recordFired keeps the request of the run that begins, and records the event.
func (m *Manager) recordFired(path string, a *agent, q runner.RunRequest) {
	q.Fired = time.Now()
	q.Chain = q.Fired
	a.mu.Lock()
	a.request, a.held, a.unsaved = q, supervisor.NoReason, true
	if q.Issue > 0 {
		a.queue.Take(q.Issue, q.Task)
		a.changed = true
	}
	a.mu.Unlock()
	data := map[string]any{"trigger": q.Trigger, "task": firstLine(q.Task)}
	if q.Issue > 0 {
		data["issue"] = q.Issue
	}
	m.Log.Append(event.Event{
		Type: event.AgentFired, Path: path, Actor: "controller",
		Message: fmt.Sprintf("%s fired by %s", path, source(q)),
	}.With(data), m.ops(path, a)...)
}

// recordSkipped records that a trigger has started no run, and how many times of its
// schedule were missed before.
func (m *Manager) recordSkipped(path string, q runner.RunRequest, reason string, missed int) {
	data := map[string]any{"trigger": q.Trigger, "reason": reason}
	if q.Issue > 0 {
		data["issue"] = q.Issue
	}
	if missed > 0 {
		data["missed"] = missed
	}
	m.Log.Append(event.Event{
		Type: event.AgentFireSkipped, Path: path, Actor: "controller",
		Message: fmt.Sprintf("%s not fired by %s: %s", path, source(q), reason),
	}.With(data))
}

// source names the origin of a run.
func source(q runner.RunRequest) string {
	switch {
	case q.Issue > 0:
		return fmt.Sprintf("issue %d", q.Issue)
	case q.Trigger == aidefile.Trigger{}.String():
		return "hand"
	}
	return q.Trigger
}

// firstLine returns the first line of a task, for an event.
func firstLine(task string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(task), "\n")
	return strings.ToValidUTF8(fmt.Sprintf("%.200s", line), "")
}
