package reconcile

import (
	"path"

	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/reconcile/hash"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// Observer makes the desired and the observed state that Plan compares. It is the one place
// at which the reconciler learns what runs.
type Observer struct {
	Root      func() *supervisor.Supervisor
	Suspended func(path string) bool // whether the file or a person suspends a node
	Triggered func(path string) bool // whether triggers start an agent
	// LastExit returns the exit of a temporary agent that its supervisor no longer lists.
	LastExit  func(path string) supervisor.Exit
	Adoptions func() []string // agents that were found running and are not yet adopted
	Orphans   *Orphans
	Hashes    *hash.Tracker
	// Agent fills in what the features know of a running incarnation.
	Agent func(*Observed)
}

// Desired returns the desired state of a fleet in start order.
func (r *Observer) Desired(f *fleet.Fleet) []Desired {
	all := make([]Desired, len(f.Order))
	for i, path := range f.Order {
		d := Desired{Path: path, Needs: f.Needs[path], After: f.After[path],
			Suspended: r.Suspended(path), Retired: f.Retired(path)}
		if a := f.Agents[path]; a != nil {
			d.Hash, d.DrainTimeout = r.Hashes.Desired(a, f.Hashes[path]), f.Patrol.DriftDrainTimeout
			d.Instance = a.Instance != (spec.Instance{})
		}
		all[i] = d
	}
	return all
}

// Observe returns the observed state by path. It has nothing of what is below a supervisor
// that does not run or does not answer, so that nothing is done there.
func (r *Observer) Observe(f *fleet.Fleet) map[string]*Observed {
	all := make(map[string]*Observed, len(f.Order))
	r.observeTree(all, r.Root())
	for at := range f.Agents {
		above := path.Dir(at)
		if all[at] == nil && (above == f.Root.Name || all[above] != nil && all[above].Phase == Running) {
			all[at] = r.observeRemoved(at)
		}
	}
	r.Orphans.AddTo(all, f)
	for _, at := range r.Adoptions() { // with the supervisors above
		for ; at != "."; at = path.Dir(at) {
			if o := all[at]; o != nil {
				o.Adoptable = true
			}
		}
	}
	r.computeReadiness(f, all)
	return all
}

// observeTree observes the children of a supervisor that runs.
func (r *Observer) observeTree(all map[string]*Observed, s *supervisor.Supervisor) {
	children, err := s.Children()
	if err != nil {
		return
	}
	observed := make([]Observed, len(children))
	for i := range children {
		info, o := &children[i], &observed[i]
		at := s.Path() + "/" + info.ID
		o.Path, o.Phase, o.RoomAt = at, PhaseOf(info), info.RoomAt
		o.Ready = o.Phase == Running ||
			o.Phase == Completed && info.State != supervisor.Suspended && info.LastExit.Clean()
		all[at] = o
		switch {
		case info.Sub != nil:
			r.observeTree(all, info.Sub)
		case info.Type == supervisor.Worker && (o.Phase == Running || info.State == supervisor.Starting):
			o.Incarnation = info.Incarnation
			o.Hash = r.Hashes.Of(token.Caller{Path: at, Incarnation: info.Incarnation})
			r.Agent(o)
		case info.Type == supervisor.Worker && IsHeld(info.State):
			o.Held, o.Incarnation = true, info.Incarnation
			o.Hash = r.Hashes.Last(token.Caller{Path: at, Incarnation: info.Incarnation})
		}
		if r.Triggered(at) {
			adjustTriggered(o, info)
		}
	}
}

// adjustTriggered adjusts the observation of an agent that triggers start. One without a run
// is not missing, and a run does not drift: the next one uses the new declaration.
func adjustTriggered(o *Observed, i *supervisor.ChildInfo) {
	if o.Hash, o.Held = (spec.Hash{}), false; i.State == supervisor.Stopped {
		o.Phase = Completed
	}
}

// IsHeld reports whether the restart of a child is delayed, or held by its limit.
func IsHeld(s supervisor.State) bool {
	return s == supervisor.Restarting || s == supervisor.Quarantined || s == supervisor.GivenUp
}

// observeRemoved observes a temporary agent that has ended and that its supervisor no longer lists.
func (r *Observer) observeRemoved(at string) *Observed {
	last := r.LastExit(at)
	return &Observed{Path: at, Phase: Completed, Ready: last.Kind != supervisor.NoExit && last.Clean()}
}

// computeReadiness completes Ready and fills in Settled. A supervisor is ready when all in it is.
func (r *Observer) computeReadiness(f *fleet.Fleet, all map[string]*Observed) {
	passive := make(map[string]bool) // nodes that are not to run
	unsettled := make(map[string]bool)
	for i := len(f.Order) - 1; i >= 0; i-- { // children before their supervisor
		at := f.Order[i]
		o := all[at]
		if o == nil {
			continue
		}
		above := path.Dir(at)
		suspended := r.Suspended(at)
		if suspended || o.Phase == Completed {
			passive[at] = true
		}
		o.Settled = passive[at] || o.Ready || f.Nodes[at] != nil && o.Phase == Running && !unsettled[at]
		if !o.Settled {
			unsettled[above] = true
		}
		if !o.Ready && !suspended && all[above] != nil {
			all[above].Ready = false
		}
	}
	for _, at := range f.Order { // instead of a node that is not to run, the sibling before it counts
		if before := all[f.After[at]]; before != nil && passive[at] && all[at] != nil {
			all[at].Settled = before.Settled
		}
	}
}
