package reconcile

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/supervisor"
)

// Removals remembers the nodes that were removed from the fleet and may still run. The zero
// value is ready to use.
type Removals struct {
	mu    sync.Mutex
	fleet map[string]*fleet.Fleet // by path: the last fleet that had the node
}

// Replaced notes that a fleet was replaced by another one.
func (r *Removals) Replaced(old, next *fleet.Fleet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fleet == nil {
		r.fleet = make(map[string]*fleet.Fleet)
	}
	for _, at := range old.Order {
		if !next.Has(at) {
			r.fleet[at] = old
		}
	}
}

// Ended notes that a removed node has ended, with all below it.
func (r *Removals) Ended(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.fleet {
		if at == node || strings.HasPrefix(at, node+"/") {
			delete(r.fleet, at)
		}
	}
}

// FleetOf returns f if it has a node, else the last fleet that had it; f if none is known.
func (r *Removals) FleetOf(at string, f *fleet.Fleet) *fleet.Fleet {
	if f.Has(at) {
		return f
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.fleet[at], f)
}

// Before returns, by path of a removed node, the removed nodes that depended on it and have
// to stop first: see InFlight. It forgets nodes that are gone.
func (r *Removals) Before(f *fleet.Fleet, observed map[string]*Observed) map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.fleet) == 0 {
		return nil
	}
	top := func(at string) string { // the removed node that is stopped with all in it
		for above := path.Dir(at); r.fleet[above] != nil && !f.Has(above); above = path.Dir(above) {
			at = above
		}
		return at
	}
	for at := range r.fleet {
		if f.Has(at) || observed[top(at)] == nil {
			delete(r.fleet, at)
		}
	}
	before := make(map[string][]string)
	for at, was := range r.fleet {
		needs := was.Needs[at]
		if n := was.Nodes[path.Dir(at)]; n != nil && n.Strategy == supervisor.RestForOne && was.After[at] != "" {
			needs = append(slices.Clone(needs), was.After[at])
		}
		for _, need := range needs {
			if later, first := top(need), top(at); r.fleet[need] != nil && later != first {
				before[later] = append(before[later], first)
			}
		}
	}
	return before
}

// Len returns how many nodes are remembered.
func (r *Removals) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.fleet)
}
