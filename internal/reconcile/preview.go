package reconcile

import (
	"path"
	"time"

	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/reconcile/hash"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// Preview returns what the first pass of a daemon would do. running is what was found in the
// runtimes. What people have stopped by hand is not known.
func Preview(f *fleet.Fleet, running []runtime.Observation, now time.Time) Result {
	return Plan(previewDesired(f), previewObserved(f, running), InFlight{}, now)
}

// previewObserved returns what the first pass would observe. An instance that its pool does
// not want is left out: what becomes of it is up to the pool.
func previewObserved(f *fleet.Fleet, running []runtime.Observation) map[string]*Observed {
	observed := make(map[string]*Observed, len(f.Order))
	for _, at := range f.Order {
		observed[at] = &Observed{Path: at, Phase: Managed}
		switch a := f.Agents[at]; {
		case a != nil && a.Aide != nil:
			observed[at].Phase = Completed // its triggers start it
		case a != nil:
			observed[at].Phase = Pending
		}
	}
	for _, r := range running {
		a := f.Agents[r.Path]
		if n := f.Nodes[path.Dir(r.Path)]; a == nil && n != nil && n.Template != nil {
			continue
		}
		o := &Observed{Path: r.Path, Phase: Unknown}
		if r.Life == runtime.Alive {
			o.Phase, o.Ready, o.Settled = Running, r.Ready, r.Ready
			if a != nil && r.SpecHash != "" {
				o.Hash = f.Hashes[r.Path]
				if r.SpecHash != o.Hash.Sum {
					o.Hash = hash.OtherThan(o.Hash, r.SpecHash)
				}
			}
		}
		observed[r.Path] = o
	}
	return observed
}

// previewDesired returns the desired state for a plan of agents alone.
func previewDesired(f *fleet.Fleet) []Desired {
	order := f.Tree.StartOrder()
	all := make([]Desired, 0, len(f.Order))
	for _, at := range f.Order {
		d := Desired{Path: at, Suspended: f.Suspended(at)}
		if f.Agents[at] != nil {
			d.Needs, d.Hash = order.Needs(at), f.Hashes[at]
			for d.After = f.After[at]; d.After != "" && f.Suspended(d.After); {
				d.After = f.After[d.After]
			}
		} else {
			d.Suspended = false
		}
		all = append(all, d)
	}
	return all
}
