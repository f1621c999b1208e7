package daemon

import (
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/supervisor"
)

// This file tells a stop by hand from a suspension. For the supervisor library
// both are Suspended, with the reason that the call has given: a stop is final
// until a start, a suspension lasts until a resume.

// stateOf returns the state of a child, and the reason, as people know them.
// Records of versions before have no reason that tells the two apart: what they
// hold back was stopped.
func stateOf(s supervisor.State, why supervisor.Reason) (state, reason string) {
	switch {
	case s == supervisor.Paused && why == supervisor.ReasonProbe: // its supervisor was resumed
		return supervisor.Waiting.String(), why.String()
	case s != supervisor.Suspended, why == supervisor.ReasonSuspended:
		return s.String(), why.String()
	case why == supervisor.ReasonDrained:
		return supervisor.Stopped.String(), why.String()
	}
	return supervisor.Stopped.String(), supervisor.ReasonStopped.String()
}

// StateAfter returns the state in which a call has put a child, as people know it.
func StateAfter(e supervisor.ChildChanged) string {
	state, _ := stateOf(e.State, e.Reason)
	return state
}

// stoppedByHand reports whether only a start brings a child back.
func stoppedByHand(i supervisor.ChildInfo) bool {
	return i.State == supervisor.Suspended && i.Reason != supervisor.ReasonSuspended
}

// isSuspended reports whether a resume brings a child back.
func isSuspended(i supervisor.ChildInfo) bool {
	return i.State == supervisor.Suspended && i.Reason == supervisor.ReasonSuspended
}

// stopReason is why an action stops something.
func stopReason(action api.Action) supervisor.Reason {
	switch action {
	case api.Suspend:
		return supervisor.ReasonSuspended
	case api.Restart:
		return supervisor.ReasonManual
	}
	return supervisor.ReasonStopped
}

// isDown reports whether a call has stopped a child, or it has not been started yet.
func isDown(why supervisor.Reason) bool {
	switch why {
	case supervisor.NoReason, supervisor.ReasonDeferred, supervisor.ReasonStartFailed, supervisor.ReasonIgnored,
		supervisor.ReasonTerminated, supervisor.ReasonSuspended, supervisor.ReasonRemoved, supervisor.ReasonSurplus,
		supervisor.ReasonChanged:
		return true
	}
	return false
}

// explainContents says of a supervisor that runs, and that is shown otherwise
// because of what is in it, what brings that back.
func explainContents(x *api.Explanation) {
	n := x.Node
	if n.Uptime == 0 { // it does not run itself
		return
	}
	switch n.State {
	case supervisor.Paused.String():
		x.Rule, x.Next, x.Hint = n.Reason, "nothing in it starts, until it is resumed", "coppice resume "+n.Path
	case supervisor.Suspended.String():
		x.Rule, x.Next, x.Hint = n.Reason, "nothing, until what is in it is resumed", "coppice resume "+n.Path
	case supervisor.Stopped.String():
		x.Rule, x.Next, x.Hint = n.Reason, "nothing, until something in it is started", "coppice start "+n.Path
	case api.Degraded:
		x.Rule, x.Hint = n.Reason, "coppice status"
	}
}
