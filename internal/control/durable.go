package control

import (
	"context"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/supervisor"
)

// waitDurable waits until what was done to a node by hand is on the disk: it has to hold
// even if the controller is killed right after its answer. It waits for a moment at most,
// so that people are served while the disk is full, too.
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

// stopReason is why an action stops something.
func stopReason(action Action) supervisor.Reason {
	switch action {
	case Suspend:
		return supervisor.ReasonSuspended
	case Restart:
		return supervisor.ReasonManual
	}
	return supervisor.ReasonStopped
}
