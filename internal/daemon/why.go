package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/supervisor"
)

// explainWaiting says why something that is wanted does not run yet, or is not to.
func (c *Controller) explainWaiting(ctx context.Context, x *api.Explanation) {
	path := x.Node.Path
	if why := c.suspendedBy(c.fleet(), path); why != "" && x.Node.State == supervisor.Suspended.String() {
		x.Rule = why
		switch {
		case !c.project.begun().IsZero():
			x.Next, x.Hint = "it starts when the project is resumed", "coppice resume"
		default:
			x.Next, x.Hint = "it starts when the file says so", "remove suspended = true from the file"
		}
		return
	}
	w, ok := c.patrols.waits(path)
	if !ok || w.For == "" {
		return
	}
	x.Rule = "it waits for " + w.For
	x.Next, x.Hint = fmt.Sprintf("it is started as soon as %s is ready", w.For), "coppice explain "+w.For
	nodes, err := c.Nodes(ctx, w.For)
	if err != nil || len(nodes) == 0 { // such as for the end of something
		return
	}
	if n := nodes[0]; n.Kind == kindSupervisor && n.State == supervisor.Running.String() {
		x.Evidence = append(x.Evidence, w.For+" runs, but not all agents in it are ready")
	} else {
		x.Evidence = append(x.Evidence, w.For+" is "+stateInWords(n))
	}
	for _, n := range nodes[1:] { // of a supervisor, what keeps it
		if n.Kind == kindAgent && n.State != supervisor.Running.String() {
			x.Evidence = append(x.Evidence, n.Path+" is "+stateInWords(n))
		}
	}
}

// stateInWords is the state of a node with the reason for it.
func stateInWords(n api.Node) string {
	text := n.State
	if n.Reason != "" {
		text += ": " + n.Reason
	}
	if n.NextAt != nil {
		text += ", until " + n.NextAt.Local().Format(time.DateTime)
	}
	if n.LastExit != "" && n.State != supervisor.Running.String() {
		text += "; its last exit: " + n.LastExit
	}
	return text
}

// manyTimes is how many events of a kind are counted at most.
const manyTimes = 1000

// explainIdle says for how long an agent has been idle, and how often it was killed for that.
func (c *Controller) explainIdle(ctx context.Context, x *api.Explanation) {
	path := x.Node.Path
	a := c.fleet().agents[path]
	if a == nil || a.IdleTimeout <= 0 {
		return
	}
	if at, ok := c.health.Activity(path); ok && x.Node.State == supervisor.Running.String() {
		text := fmt.Sprintf("last input or output %s ago; its idle_timeout is %s",
			liveness.Brief(max(0, time.Since(at.Last)).Round(time.Second)), liveness.Brief(a.IdleTimeout))
		if !at.Counts {
			text += "; that does not count at the moment"
		}
		x.Evidence = append(x.Evidence, text)
	}
	killed, _, err := c.log.Last(ctx, manyTimes,
		func(e event.Event) bool { return e.Path == path && e.Type == event.AgentIdleKilled })
	if n := len(killed); err == nil && n > 0 {
		times := map[bool]string{true: "once", false: fmt.Sprintf("%d times", n)}[n == 1]
		x.Evidence = append(x.Evidence, fmt.Sprintf("killed %s because it was idle, last at %s", times,
			killed[n-1].Time.Local().Format(time.DateTime)))
	}
}
