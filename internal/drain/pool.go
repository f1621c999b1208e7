package drain

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// BeginSurplus drains an instance that its pool no longer wants. The pool decides what happens to the
// instance afterwards.
func (m *Manager) BeginSurplus(path string, incarnation uint64, reason string, timeout time.Duration) {
	m.Agents.DropRestart(path, "it is asked to finish")
	m.begin(record{Path: path, Incarnation: incarnation, Reason: reason, Pool: true}, timeout, "controller")
}

// CancelSurplus cancels the drain of an instance that its pool wants again.
func (m *Manager) CancelSurplus(path string) {
	d := m.of(path)
	if d == nil || !d.Pool || !d.decide("") {
		return
	}
	m.end(path, d.Incarnation, event.Event{
		Type: event.AgentDrainEnded, Actor: "controller",
		Message: path + " need no longer finish: its pool wants it again",
	})
	close(d.canceled)
	d.err = errNotDrained(path)
	d.close(d.done)
}

// DecideSurplus records that the pool of an instance stops it, and why.
func (m *Manager) DecideSurplus(path, why string) {
	if d := m.of(path); d != nil && d.Pool {
		d.decide(why)
	}
}

// Conclude ends the drain of an agent that has been removed from the fleet.
func (m *Manager) Conclude(ctx context.Context, path string) {
	d := m.of(path)
	if d == nil || !d.Pool {
		m.Cancel(ctx, path)
		return
	}
	d.decide("is no longer in the file")
	m.end(path, d.Incarnation, event.Event{
		Type: event.AgentDrained, Actor: "controller",
		Message: fmt.Sprintf("%s %s, and is stopped", path, d.decision()),
	}.With(map[string]any{"finished": isClosed(d.acknowledged)}))
	d.close(d.done)
}
