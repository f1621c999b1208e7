package drain

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/token"
)

// maxHold bounds how long AwaitStop holds back an exit.
const maxHold = 2 * time.Second

// Draining returns the drain of an agent that asks for it; nil if it has none.
func (m *Manager) Draining(who token.Caller) *Info {
	m.Agents.ChecksDrains(who)
	return m.API(who.Path)
}

// AckDrain notes that an agent says that it has finished. ErrConflict without a request.
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

// Exited notes that an incarnation has exited.
func (m *Manager) Exited(path string, incarnation uint64) {
	if d := m.of(path); d != nil && d.Incarnation == incarnation {
		d.close(d.exited)
		m.Changed(path)
	}
}

// AwaitStop holds back the exit of a drained incarnation, for a bounded time, until its
// supervisor has asked it to stop, which ends asked. Otherwise the supervisor, which does
// not know yet that the incarnation has exited, would start the agent again.
func (m *Manager) AwaitStop(asked context.Context, path string, incarnation uint64) {
	d := m.of(path)
	if d == nil || d.Incarnation != incarnation || d.renews() {
		return // to be started again is what was meant
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
