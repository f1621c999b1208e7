package fleet

import (
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// This file is the order in which the nodes of a tree start. A supervisor starts its children
// one after the other, as in OTP. It does not know what is elsewhere in the tree, nor whether
// all agents in a child are ready. The reconciler starts whatever has to wait for that, and
// what may start in parallel: when all that it needs is ready and the sibling before it has
// settled. So each node has one part of the daemon that starts it, at the launch as well as
// after a restart of the supervisor or group that it is in.

// addOrder fills in Needs, After and Manual.
func (f *Fleet) addOrder() {
	order := f.Tree.StartOrder()
	for _, path := range f.Order {
		if needs := order.Needs(path); len(needs) > 0 {
			f.Needs[path] = needs
		}
	}
	retired := make(map[string]bool) // names of supervisors that stay until they have finished
	for _, n := range f.Nodes {
		if n.Retired {
			retired[n.Name] = true
		}
	}
	for above, n := range f.Nodes {
		f.addSiblings(above, n, retired)
	}
}

// addSiblings fills in After and Manual of the children of a supervisor.
func (f *Fleet) addSiblings(above string, n *spec.Node, retired map[string]bool) {
	group := n.Strategy != supervisor.OneForOne
	parallel := n == f.Tree.Root || n.Template != nil
	last, waits := "", false
	for _, c := range n.Children {
		path := above + "/" + c.Name()
		if group && last != "" {
			f.After[path] = last
		}
		last = path
		depends := len(c.DependsOn()) > 0
		suspended, triggered := n.Suspended, false
		if c.Agent != nil {
			suspended, triggered = suspended || c.Agent.Suspended, c.Agent.Aide != nil
		} else {
			suspended = suspended || c.Node.Suspended
		}
		waits = waits || depends && !triggered
		// A node with the name of a retired one starts when that has finished.
		moved := retired[c.Name()] && (c.Node == nil || !c.Node.Retired)
		if suspended || moved || group && waits || !group && (parallel || depends) && !triggered {
			f.Manual[path] = true
		}
		waits = waits || c.Node != nil // its supervisor has started it before it is ready
	}
}
