package daemon

import (
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// This file is the one place at which the patrol learns what is.

// desired is what is wanted, as the patrol sees it.
func (c *Controller) desired(f *fleet.Fleet) []reconcile.Desired {
	all := make([]reconcile.Desired, len(f.Order))
	for i, path := range f.Order {
		d := reconcile.Desired{Path: path, Needs: f.Needs[path], After: f.After[path],
			Suspended: c.suspendedBy(f, path) != "", Retired: f.Retired(path)}
		if a := f.Agents[path]; a != nil {
			d.Hash, d.DrainTimeout = c.hashes.Desired(a, f.Hashes[path]), f.Patrol.DriftDrainTimeout
			d.Instance = a.Instance != (spec.Instance{})
		}
		all[i] = d
	}
	return all
}

// observed is what is, by path. What a supervisor that does not run, or does not
// answer, has below it is not seen, and nothing is done about it.
func (c *Controller) observed(f *fleet.Fleet) map[string]*reconcile.Observed {
	all := make(map[string]*reconcile.Observed, len(f.Order))
	c.see(all, c.root)
	for path := range f.Agents {
		above, _, _ := cutLast(path)
		if all[path] == nil && (above == f.Root.Name || all[above] != nil && all[above].Phase == reconcile.Running) {
			all[path] = c.done(path)
		}
	}
	c.orphans.AddTo(all, f)
	for _, path := range c.agents.Adoptions() { // and what it is in
		for at, ok := path, true; ok; at, _, ok = cutLast(at) {
			if o := all[at]; o != nil {
				o.Adoptable = true
			}
		}
	}
	c.ripen(f, all)
	return all
}

// ripen finds out what is ready and what has settled of all that is wanted.
func (c *Controller) ripen(f *fleet.Fleet, all map[string]*reconcile.Observed) {
	idle := make(map[string]bool) // what is not to run
	unsettled := make(map[string]bool)
	for i := len(f.Order) - 1; i >= 0; i-- { // what contains something is ready when that is
		path := f.Order[i]
		o := all[path]
		if o == nil {
			continue
		}
		above, _, _ := cutLast(path)
		suspended := c.suspendedBy(f, path) != ""
		idle[path] = suspended || o.Phase == reconcile.Completed
		o.Settled = idle[path] || o.Ready || f.Nodes[path] != nil && o.Phase == reconcile.Running && !unsettled[path]
		if !o.Settled {
			unsettled[above] = true
		}
		if !o.Ready && !suspended && all[above] != nil {
			all[above].Ready = false
		}
	}
	for _, path := range f.Order { // instead of what is not to run, what comes before that counts
		if before := all[f.After[path]]; before != nil && idle[path] && all[path] != nil {
			all[path].Settled = before.Settled
		}
	}
}

// see looks at the children of a supervisor that runs.
func (c *Controller) see(all map[string]*reconcile.Observed, s *supervisor.Supervisor) {
	children, err := s.Children()
	if err != nil {
		return
	}
	for i := range children {
		info := &children[i]
		path := s.Path() + "/" + info.ID
		o := &reconcile.Observed{Path: path, Phase: reconcile.PhaseOf(info), RoomAt: info.RoomAt}
		o.Ready = o.Phase == reconcile.Running ||
			o.Phase == reconcile.Completed && info.State != supervisor.Suspended && info.LastExit.Clean()
		all[path] = o
		switch {
		case info.Sub != nil:
			c.see(all, info.Sub)
		case info.Type == supervisor.Worker && (o.Phase == reconcile.Running || info.State == supervisor.Starting):
			c.regard(o, info.Incarnation)
		case info.Type == supervisor.Worker && isHeld(info.State):
			o.Held, o.Incarnation = true, info.Incarnation
			o.Hash = c.hashes.Last(api.Caller{Path: path, Incarnation: info.Incarnation})
		}
		if c.triggers.Has(path) {
			asTriggered(o, info)
		}
	}
}

// asTriggered adjusts what is observed of an agent with an Aidefile. One that waits for its
// triggers is not missing, and a run does not drift: the next one uses the new declaration.
func asTriggered(o *reconcile.Observed, i *supervisor.ChildInfo) {
	if o.Hash, o.Held = (spec.Hash{}), false; i.State == supervisor.Stopped {
		o.Phase = reconcile.Completed
	}
}

// isHeld reports whether the restart of a child is delayed, or held by its limit.
func isHeld(s supervisor.State) bool {
	return s == supervisor.Restarting || s == supervisor.Quarantined || s == supervisor.GivenUp
}

// regard looks at an agent that lives.
func (c *Controller) regard(o *reconcile.Observed, incarnation uint64) {
	who := api.Caller{Path: o.Path, Incarnation: incarnation}
	o.Incarnation = incarnation
	o.Request, o.Requested = c.restarts.Of(who)
	o.Draining = c.drains.IsDraining(o.Path, incarnation)
	o.Hash = c.hashes.Of(who)
	i := c.health.Incarnation(who)
	o.Idle, o.Asks = i.Idle(), i.SeesDrains()
}

// done is an agent that its supervisor does not know any more: it is temporary, and has ended.
func (c *Controller) done(path string) *reconcile.Observed {
	last := c.forgotten(path).LastExit
	ready := last.Kind != supervisor.NoExit && last.Clean()
	return &reconcile.Observed{Path: path, Phase: reconcile.Completed, Ready: ready}
}
