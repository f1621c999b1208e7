package reconcile

import "github.com/coppice-dev/coppice/supervisor"

// PhaseOf returns the phase of a child.
func PhaseOf(i *supervisor.ChildInfo) Phase {
	switch i.State {
	case supervisor.Running:
		return Running
	case supervisor.Suspended:
		return Completed
	case supervisor.Waiting:
		if i.Reason == supervisor.ReasonDeferred {
			return Pending
		}
	case supervisor.Stopped:
		switch {
		case startsLater(i.Reason):
			return Pending
		case !endsWithSupervisor(i.Reason):
			return Completed
		}
	}
	return Managed
}

// startsLater reports whether a call has stopped a child, or it has not been started yet.
func startsLater(why supervisor.Reason) bool {
	switch why {
	case supervisor.NoReason, supervisor.ReasonDeferred, supervisor.ReasonStartFailed, supervisor.ReasonIgnored,
		supervisor.ReasonTerminated, supervisor.ReasonSuspended, supervisor.ReasonRemoved, supervisor.ReasonSurplus,
		supervisor.ReasonChanged, supervisor.ReasonMoved:
		return true
	}
	return false
}

// endsWithSupervisor reports whether a child is down because its supervisor ends, which starts it
// again if it runs again.
func endsWithSupervisor(why supervisor.Reason) bool {
	switch why {
	case supervisor.ReasonShutdown, supervisor.ReasonLimitEscalate, supervisor.ReasonAbandoned:
		return true
	}
	return false
}
