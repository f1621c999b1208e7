package drain

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/token"
)

// maxHold is the longest time for which AwaitStop delays an exit.
const maxHold = 2 * time.Second

// Draining returns the drain of the calling agent, or nil if it has none.
func (m *Manager) Draining(who token.Caller) *Info {
	m.Agents.ChecksDrains(who)
	return m.API(who.Path)
}

// AckDrain records that the calling agent has finished. The error is api.ErrConflict if it is not
// drained.
func (m *Manager) AckDrain(who token.Caller) error {
	d := m.of(who.Path)
	if d == nil || d.Incarnation != who.Incarnation {
		return fmt.Errorf("%w: %s was not asked to finish", api.ErrConflict, who.Path)
	}
	if isClosed(d.acknowledged) {
		return nil
	}
	finished := d.current()
	finished.Finished = true
	if err := m.Record(event.Event{
		Type: event.AgentFinished, Path: who.Path, Incarnation: who.Incarnation, Actor: who.Path,
		Message: who.Path + " says that it has finished",
	}, finished.op()); err != nil {
		m.Logger.Warn("cannot persist that a drained agent has finished", "path", who.Path, "error", err)
	}
	d.close(d.acknowledged)
	m.Changed(d.Path)
	return nil
}

// Exited records that an incarnation has exited.
func (m *Manager) Exited(path string, incarnation uint64) {
	if d := m.of(path); d != nil && d.Incarnation == incarnation {
		d.close(d.exited)
		m.Changed(path)
	}
}

// AwaitStop delays the exit of a drained incarnation, for a bounded time, until its supervisor has
// asked it to stop, which ends asked. Otherwise the supervisor would see an exit that nothing has
// asked for, and restart the agent.
func (m *Manager) AwaitStop(asked context.Context, path string, incarnation uint64) {
	d := m.of(path)
	if d == nil || d.Incarnation != incarnation || d.renews() {
		return // a restart is intended
	}
	select {
	case <-m.Launched:
	case <-asked.Done():
		return
	}
	select {
	case <-asked.Done():
	case <-d.canceled:
	case <-time.After(maxHold):
	}
}
