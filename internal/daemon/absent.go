package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/supervisor"
)

// What the file names below a supervisor that does not run is in no supervisor's
// list. It is shown as what it is: something that waits for, or is down with,
// what is above it.

// absent appends what the file names below the last of some nodes, whose
// supervisor does not run.
func (c *Controller) absent(all []api.Node) []api.Node {
	above := all[len(all)-1]
	return c.absentBelow(all, above.Path, downWith(above), fmt.Sprintf("%s is %s", above.Path, stateInWords(above)))
}

func (c *Controller) absentBelow(all []api.Node, path string, state supervisor.State, why string) []api.Node {
	d := c.fleet().nodes[path]
	if d == nil {
		return all
	}
	for _, child := range d.Children {
		info := forgotten(child.Name())
		n := c.node(path+"/"+info.ID, info)
		if n.State != supervisor.Suspended.String() { // by the file or with the project, which it says
			n.State, n.Reason = state.String(), why
		}
		all = c.absentBelow(append(all, n), n.Path, state, why)
	}
	return all
}

// downWith is the state of what is below a supervisor that does not run.
func downWith(above api.Node) supervisor.State {
	switch above.State {
	case supervisor.Suspended.String():
		return supervisor.Suspended
	case supervisor.Waiting.String(), supervisor.Starting.String(), supervisor.Restarting.String(), supervisor.Running.String():
		return supervisor.Waiting
	}
	return supervisor.Stopped
}

// absentAt are the nodes at and below a path, whose supervisor does not run.
func (c *Controller) absentAt(ctx context.Context, path string) (all []api.Node, err error) {
	nodes, err := c.Nodes(ctx, parent(path))
	for _, n := range nodes {
		if n.Path == path || strings.HasPrefix(n.Path, path+"/") {
			all = append(all, n)
		}
	}
	if err == nil && len(all) == 0 {
		err = c.noNode(path)
	}
	return all, err
}

// explainAbsent explains a node whose supervisor does not run by what is above it.
func (c *Controller) explainAbsent(ctx context.Context, x api.Explanation) (api.Explanation, error) {
	above := parent(x.Node.Path)
	up, err := c.Explain(ctx, above)
	if err != nil {
		return x, err
	}
	x.Next, x.Hint = up.Next, up.Hint
	if _, _, err := c.locate(above); err == nil {
		x.Next = above + ": " + up.Next
	}
	c.explainWaiting(ctx, &x)
	x.History = c.history(ctx, x.Node.Path)
	return x, nil
}
