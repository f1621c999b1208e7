package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
)

// Previous is the state in which the previous daemon has left an agent.
type Previous struct {
	Incarnation uint64
	Wanted      bool // the fleet has it, and continues from the state of the previous daemon
	Ended       bool // the incarnation has exited
	Suspended   bool
}

// Restore reads the drains that the previous daemon has begun. past returns the state in which that
// daemon has left an agent, or false if it is unknown. suspend marks an agent as stopped in the
// records, as the end of a drain does, and returns the change of the store.
func (m *Manager) Restore(
	ctx context.Context, past func(path string) (Previous, bool), suspend func(path string) store.Op,
) error {
	stored, _, err := m.Store.Snapshot(ctx, prefix)
	if err != nil {
		return fmt.Errorf("reading drains: %w", err)
	}
	for _, s := range stored {
		var r record
		if json.Unmarshal(s.Value, &r) != nil || r.Path == "" || r.key() != s.Key {
			m.Logger.Warn("cannot read a drain; ignoring it", "key", s.Key)
			continue
		}
		over := event.Event{Type: event.AgentDrainEnded, Actor: "controller", Message: r.Path + ": the drain is over"}
		switch p, known := past(r.Path); {
		case r.Pool && (!known || p.Ended || p.Incarnation != r.Incarnation):
			m.end(r.Path, r.Incarnation, event.Event{
				Type: event.AgentDrained, Actor: "controller", Message: r.Path + " has ended, and is gone",
			})
		case !p.Wanted, !known, p.Incarnation != r.Incarnation, p.Suspended, p.Ended && r.Renew:
			m.end(r.Path, r.Incarnation, over)
		case p.Ended:
			m.end(r.Path, r.Incarnation, event.Event{
				Type: event.AgentDrained, Actor: "controller", Message: r.Path + " has ended, and stays stopped",
			}, suspend(r.Path))
		default:
			m.mu.Lock()
			m.byPath[r.Path] = newDrain(r, r.left())
			m.mu.Unlock()
		}
	}
	return nil
}

// left returns the time until the deadline of a drain of the previous daemon. If the clock was set
// back since, the time of saving is used instead of the current time.
func (r record) left() time.Duration {
	now := time.Now()
	if now.Before(r.SavedAt) {
		now = r.SavedAt
	}
	return min(max(r.Until.Sub(now), 0), MaxTimeout)
}

// Resume continues the restored drains, except for those of pools, which the pools continue.
func (m *Manager) Resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.byPath {
		if !d.Pool {
			m.Go(func(ctx context.Context) { m.finish(ctx, d) })
		}
	}
}
