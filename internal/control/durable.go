package control

import (
	"context"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/supervisor"
)

// waitDurable waits until an action on a node is stored, since it must hold even if the daemon is
// killed right after its answer. The wait is bounded, so that actions work while the disk is full.
func (m *Manager) waitDurable(ctx context.Context, path string, before supervisor.ChildInfo, action Action) {
	suspended := supervisor.Suspended.String()
	var done func(*agent.Record) bool
	switch action {
	case Stop, Suspend:
		why := stopReason(action)
		if before.State == supervisor.Suspended && before.Reason == why {
			return
		}
		done = func(r *agent.Record) bool { return r.State == suspended && r.Reason == why.String() }
	case Restart:
		done = func(r *agent.Record) bool { return r.State != suspended && r.Incarnation > before.Incarnation }
	default:
		if before.State != supervisor.Suspended {
			return
		}
		done = func(r *agent.Record) bool { return r.State != suspended }
	}
	m.Journal.AwaitRecord(ctx, path, done)
}

// stopReason returns the reason of the stop that belongs to an action.
func stopReason(action Action) supervisor.Reason {
	switch action {
	case Suspend:
		return supervisor.ReasonSuspended
	case Restart:
		return supervisor.ReasonManual
	}
	return supervisor.ReasonStopped
}
