package daemon

import (
	"cmp"
	"fmt"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/supervisor"
)

// This file shows what nobody runs at the moment, because a supervisor above it
// does not run. The file names it all the same, and people ask for it.

// restingAt is the picture of a node whose supervisor does not run, and with
// that of what it is in.
func (c *Controller) restingAt(path string) (api.Node, error) {
	for at := parent(path); at != "" && at != c.root.Path(); at = parent(at) {
		if sup := c.find(parent(at)); sup != nil {
			_, id, _ := cutLast(at)
			info, err := c.child(sup, id)
			if err != nil {
				return api.Node{}, notFound(at, err)
			}
			return c.resting(path, c.node(at, info)), nil
		}
	}
	return api.Node{}, fmt.Errorf("%s: the fleet does not run: %w", path, api.ErrStopping)
}

// rest appends what a file names below a node that does not run. above is the
// first node on the way down that does not.
func (c *Controller) rest(all []api.Node, path string, above api.Node) []api.Node {
	d := c.fleet().nodes[path]
	if d == nil {
		return all
	}
	for _, child := range d.Children {
		at := path + "/" + child.Name()
		all = c.rest(append(all, c.resting(at, above)), at, above)
	}
	return all
}

// resting is a node below one that does not run, which says why.
func (c *Controller) resting(path string, above api.Node) api.Node {
	info := c.forgotten(path)
	switch above.State {
	case supervisor.Running.String(), supervisor.Starting.String(), supervisor.Waiting.String(),
		supervisor.Restarting.String(), supervisor.Quarantined.String():
		info.State = supervisor.Waiting
	case supervisor.Suspended.String():
		info.State, info.Reason = supervisor.Suspended, supervisor.ReasonSuspended
	}
	n := c.node(path, info)
	switch why := c.suspendedBy(c.fleet(), path); {
	case why != "":
		n.State, n.Reason = supervisor.Suspended.String(), why
	case info.State == supervisor.Waiting:
		n.Reason, n.NextAt = cmp.Or(above.Reason, above.Path+" is "+above.State), above.NextAt
	default:
		n.Reason = above.Path + " is " + above.State
	}
	return n
}
