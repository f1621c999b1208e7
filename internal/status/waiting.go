package status

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/supervisor"
)

// explainWaiting says why something that is wanted does not run yet, or is not to.
func (l live) explainWaiting(ctx context.Context, x *Explanation) {
	path := x.Node.Path
	if why := l.opts.SuspendedBy(path); why != "" && x.Node.State == supervisor.Suspended.String() {
		x.Rule = why
		switch {
		case l.Resumable():
			x.Next, x.Hint = "it starts when the project is resumed", "coppice resume"
		default:
			x.Next, x.Hint = "it starts when the file says so", "remove suspended = true from the file"
		}
		return
	}
	w, ok := l.Waits(path)
	if !ok || w.For == "" {
		return
	}
	x.Rule = "it waits for " + w.For
	x.Next, x.Hint = fmt.Sprintf("it is started as soon as %s is ready", w.For), "coppice explain "+w.For
	nodes, err := l.Nodes(ctx, w.For)
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

// stateInWords returns the state of a node with the reason for it.
func stateInWords(n Node) string {
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

// manyTimes bounds the number of events of a kind that are counted.
const manyTimes = 1000

// explainIdle says for how long an agent has been idle, and how often it was killed for that.
func (l live) explainIdle(ctx context.Context, x *Explanation, f Fleet) {
	path := x.Node.Path
	a := f.Agents[path]
	if a == nil || a.IdleTimeout <= 0 {
		return
	}
	if at, ok := l.Health.Activity(path); ok && x.Node.State == supervisor.Running.String() {
		text := fmt.Sprintf("last input or output %s ago; its idle_timeout is %s",
			liveness.Brief(max(0, time.Since(at.Last)).Round(time.Second)), liveness.Brief(a.IdleTimeout))
		if !at.Counts {
			text += "; that does not count at the moment"
		}
		x.Evidence = append(x.Evidence, text)
	}
	killed, _, err := l.opts.Log.Last(ctx, manyTimes,
		func(e event.Event) bool { return e.Path == path && e.Type == event.AgentIdleKilled })
	if n := len(killed); err == nil && n > 0 {
		times := map[bool]string{true: "once", false: fmt.Sprintf("%d times", n)}[n == 1]
		x.Evidence = append(x.Evidence, fmt.Sprintf("killed %s because it was idle, last at %s", times,
			killed[n-1].Time.Local().Format(time.DateTime)))
	}
}
