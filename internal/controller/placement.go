package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/internal/calls/far"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health/programs"
	"github.com/coppice-dev/coppice/internal/spec"
)

// noNode names, in the list of waiting agents, a node that takes them.
const noNode = "node"

// machines is the part of a controller that knows the machines of a fleet, and where agents run. Without a fleet there
// is one.
type machines struct{ c *Controller }

// place says where the agents of a fleet may run.
func (m machines) place() {
	if m.c.opts.Places == nil {
		return
	}
	m.c.homeless.Locate, m.c.homeless.Go = m.c.tree.Locate, m.c.background.run
	m.c.opts.Places.Follow(m.want, func(path string) { m.c.homeless.Add(path, noNode) })
}

// want says where an agent may run. One that needs the controller runs where that is.
func (m machines) want(path string) (w placement.Want, err error) {
	a := m.c.fleetOf(path).Agents[path]
	if a == nil {
		return w, nil
	}
	p := a.Placement
	if needs := needsController(a); needs != "" {
		w.Node = m.c.opts.Places.Node
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
func (m machines) staysBehind(path string) bool {
	if m.isAway(path) {
		return true
	}
	a := m.c.fleetOf(path).Agents[path]
	return a != nil && needsController(a) == ""
}

// needsController returns what an agent has that works only on the machine of the controller; "" if nothing.
func needsController(a *spec.Agent) string {
	switch {
	case a.Program != nil:
		return "a Sage program"
	case a.Pipeline != nil:
		return "a pipeline"
	}
	return ""
}

// summaries returns the nodes of the fleet; none if there is none.
func (m machines) summaries() []nodes.Summary { return nodes.Known(m.c.opts.Places) }

// name returns the name of this machine in the fleet; "" if there is none.
func (m machines) name() string {
	if m.c.opts.Places == nil {
		return ""
	}
	return m.c.opts.Places.Node
}

// isAway reports whether an agent has its place on another node, where it may run.
func (m machines) isAway(path string) bool {
	return m.c.opts.Places != nil && m.c.opts.Places.IsAway(path)
}

// callsOf returns what follows the calls of an agent whose last incarnation was started on another node; nil if it was
// not.
func (m machines) callsOf(path string) *far.Client {
	if m.c.opts.Places == nil {
		return nil
	}
	if place, ok := m.c.opts.Places.Of(path); ok && place.Node != m.c.opts.Places.Node {
		return m.c.opts.Far(place.Node)
	}
	return nil
}

// programs reports for processes of a node whether programs run in them.
func (m machines) programs(ctx context.Context, node string, all []programs.Wanted) (map[int]bool, error) {
	if node == "" || m.c.opts.Places == nil {
		return programs.Here(all)
	}
	return programs.There(ctx, m.c.opts.Transport(node), all)
}

// hostOf returns the machine on which an agent runs, or has run last.
func (m machines) hostOf(path string) string {
	if m.c.opts.Places != nil {
		if place, ok := m.c.opts.Places.Of(path); ok {
			return place.Node
		}
	}
	return m.c.host
}

// follow has agents follow what changes in the nodes of the fleet, until ctx ends.
func (m machines) follow(ctx context.Context) {
	if m.c.opts.Node == nil {
		return
	}
	for {
		_, changed := m.c.opts.Node.View().All()
		ended := m.c.opts.Places.Leases.Changed() // which is no change of the nodes
		m.c.opts.Places.Update()
		m.c.loop.Enqueue()
		m.c.homeless.Start(slices.DeleteFunc(m.c.homeless.Paths(), func(path string) bool {
			return !m.c.opts.Places.IsTaken(path)
		}), true)
		select {
		case <-changed:
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

// followLost logs the loss of nodes, until ctx ends.
func (m machines) followLost(ctx context.Context) {
	for {
		select {
		case name := <-m.c.opts.Lost:
			m.c.log.Append(event.Event{
				Type: event.NodeLost, Actor: "controller",
				Message: fmt.Sprintf("node %s is lost: its lease has ended; its agents are started elsewhere when "+
					"they have had time to stop", name),
			}.With(map[string]any{"node": name}))
		case <-ctx.Done():
			return
		}
	}
}
