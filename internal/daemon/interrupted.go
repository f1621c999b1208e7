package daemon

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// This file deals with stops and restarts that the last controller had begun and not
// finished when it was killed. What was stopped only to be started again is started,
// whatever its restart policy, and what a person has stopped stays down.

// finishStop makes a stop by hand that was begun the state of a node, and drops a stop
// that is half of a restart by hand.
func (r *record) finishStop() {
	state := r.saved().State
	switch why := reasonOf(r.Reason); {
	case why == supervisor.ReasonStopped && state == supervisor.Stopping:
		r.State = supervisor.Suspended.String()
	case why == supervisor.ReasonManual && state == supervisor.Suspended:
		r.State, r.Reason = supervisor.Waiting.String(), ""
	}
}

// isRestarting reports whether the last incarnation was being stopped, and the agent
// was to run again after that.
func (r *record) isRestarting() bool {
	if r.Ended || r.State != supervisor.Stopping.String() {
		return false
	}
	switch reasonOf(r.Reason) {
	case supervisor.ReasonManual, supervisor.ReasonReplaced, supervisor.ReasonChanged, supervisor.ReasonRequested,
		supervisor.ReasonSibling, supervisor.ReasonShutdown:
		return true
	}
	return false
}

// finishRestart has an agent started afresh whose last incarnation was being stopped for
// that: once it has ended, if it has not yet.
func (c *Controller) finishRestart(o sighting, r *record) {
	why := r.Reason
	r.Ended, r.State, r.Reason = true, supervisor.Waiting.String(), ""
	if o.Life != runtime.Dead {
		c.addStray(o, why, r)
		return
	}
	r.LastExit = newRecord(r.Path, o.Incarnation, true, supervisor.Saved{LastExit: o.Exit}).LastExit
	c.over(r.Path, o.Incarnation, "")
	c.log.Append(event.Event{
		Time: o.ExitedAt, Type: event.AgentStopped, Path: r.Path, Incarnation: o.Incarnation, Actor: "supervisor",
		Message: fmt.Sprintf("%s stopped: %v (%s); noticed later", r.Path, o.Exit, why),
	}.With(event.Stopped{End: endOf(o.Exit), Cause: event.Cause{Reason: why}, Late: true}), r.op())
}
