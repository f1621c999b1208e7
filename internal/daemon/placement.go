package daemon

import (
	"context"
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/internal/calls/far"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/spec"
)

// noNode names, in the list of waiting agents, a node that takes them.
const noNode = "node"

// placeAgents says where the agents of a fleet may run.
func (c *Controller) placeAgents() {
	if c.opts.Places == nil {
		return
	}
	c.homeless.Locate, c.homeless.Go = c.tree.Locate, c.background.run
	c.opts.Places.Follow(c.want, func(path string) { c.homeless.Add(path, noNode) })
}

// want says where an agent may run. One that needs the controller runs where that is.
func (c *Controller) want(path string) (w placement.Want, err error) {
	a := c.fleetOf(path).Agents[path]
	if a == nil {
		return w, nil
	}
	p := a.Placement
	if needs := needsController(a); needs != "" {
		w.Node = c.opts.Places.Node
		if p.Node != "" && p.Node != w.Node {
			err = fmt.Errorf("%s has %s, which works only on the node of the controller so far, %s, and node = %q",
				path, needs, w.Node, p.Node)
		}
		return w, err
	}
	w.Node, w.Labels, w.Spread, w.MaxPerNode = p.Node, p.Labels, p.Spread, p.MaxPerNode
	return w, nil
}

// staysBehind reports whether an agent goes on when this node stops being the controller because it is being drained:
// the next controller takes it over, wherever it is, and moves it.
func (c *Controller) staysBehind(path string) bool {
	if c.isAway(path) {
		return true
	}
	a := c.fleetOf(path).Agents[path]
	return a != nil && needsController(a) == ""
}

// needsController returns what an agent has that works only on the machine of the controller; "" if nothing.
func needsController(a *spec.Agent) string {
	switch {
	case a.Program != nil:
		return "a Sage program"
	case a.Aide != nil:
		return "an Aidefile"
	case a.Pipeline != nil:
		return "a pipeline"
	case len(a.ProcessNames) > 0:
		return "process_names"
	}
	return ""
}

// machines returns the nodes of the fleet; none if there is none.
func (c *Controller) machines() []nodes.Summary { return nodes.Known(c.opts.Places) }

// nodeName returns the name of this machine in the fleet; "" if there is none.
func (c *Controller) nodeName() string {
	if c.opts.Places == nil {
		return ""
	}
	return c.opts.Places.Node
}

// isAway reports whether an agent has its place on another node, where it may run.
func (c *Controller) isAway(path string) bool {
	return c.opts.Places != nil && c.opts.Places.IsAway(path)
}

// callsOf returns what follows the calls of an agent whose last incarnation was started on another node; nil if it was
// not.
func (c *Controller) callsOf(path string) *far.Client {
	if c.opts.Places == nil {
		return nil
	}
	if place, ok := c.opts.Places.Of(path); ok && place.Node != c.opts.Places.Node {
		return c.opts.Far(place.Node)
	}
	return nil
}

// hostOf returns the machine on which an agent runs, or has run last.
func (c *Controller) hostOf(path string) string {
	if c.opts.Places != nil {
		if place, ok := c.opts.Places.Of(path); ok {
			return place.Node
		}
	}
	return c.host
}

// followNodes has agents follow what changes in the nodes of the fleet, until ctx ends.
func (c *Controller) followNodes(ctx context.Context) {
	if c.opts.Node == nil {
		return
	}
	for {
		_, changed := c.opts.Node.View().All()
		c.opts.Places.Update()
		c.loop.Enqueue()
		c.homeless.Start(slices.DeleteFunc(c.homeless.Paths(), func(path string) bool {
			return !c.opts.Places.IsTaken(path)
		}), true)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
