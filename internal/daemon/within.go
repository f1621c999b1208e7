package daemon

import (
	"fmt"
	"maps"
	"slices"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// within reports whether a path is that of an agent inside of this process, which
// ends with it.
func (c *Controller) within(path string) bool {
	a := c.fleet().agents[path]
	return a != nil && a.Runtime == spec.InProcess
}

// leavesAlone reports whether the end of the controller leaves a node as it is.
func (c *Controller) leavesAlone(path string) bool { return !c.within(path) && c.keeps() }

// endWithController settles what has become of agents that lived inside of the
// last controller when it was killed: they ended with it, which is nobody's
// failure. Each is started again, as in any tree that starts, but for the
// temporary ones: those run once.
func (c *Controller) endWithController(records map[string]*record) {
	for _, path := range slices.Sorted(maps.Keys(records)) {
		r := records[path]
		if r.Ended || r.Incarnation == 0 || !c.within(path) || c.opts.Once {
			continue
		}
		r.Ended, r.State, r.Reason = true, supervisor.Waiting.String(), ""
		what := "it is started again"
		if c.fleet().agents[path].Restart == supervisor.Temporary {
			r.State, r.Reason = supervisor.Stopped.String(), supervisor.ReasonTemporary.String()
			what = "temporary, so it is not started again"
		}
		c.log.Append(event.Event{
			Type: event.AgentLost, Path: path, Incarnation: r.Incarnation, Actor: "controller",
			Message: fmt.Sprintf("%s ended with the controller that it lived in; %s", path, what),
		}.With(event.Stopped{
			End: event.End{Exit: supervisor.Lost.String()}, Cause: event.Cause{Reason: "the controller was killed"},
		}), r.op())
	}
}
