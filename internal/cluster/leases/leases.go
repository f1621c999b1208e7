// Package leases knows which leases of the nodes of a fleet have ended, and since when. Each node follows those of the
// others: the next controller counts from the ends of leases, and not from its own start.
package leases

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store"
)

// Lease is one lease of a node.
type Lease struct {
	Node  string
	Epoch uint64
}

// Of returns the lease that a node has, or has had last; its epoch is 0 if it has had none.
func Of(n registry.Node) Lease { return Lease{n.Name, n.Epoch} }

// maxLooks bounds the leases that are looked at at the same time.
const maxLooks = 8

// retryPause is the time after which a lease is looked at again when the store has not answered.
const retryPause = 500 * time.Millisecond

// Tracker knows which leases have ended.
type Tracker struct {
	store store.Store
	nodes func() (all []registry.Node, changed <-chan struct{})

	mu      sync.Mutex
	ended   map[Lease]time.Time // when that was known
	changed chan struct{}       // closed and replaced when there is one more
	due     []string            // names of leases that have changed; "" is all
	wake    chan struct{}
}

// New returns a tracker, which knows nothing yet. nodes returns the nodes of the fleet, and a channel that is closed
// when these change.
func New(s store.Store, nodes func() (all []registry.Node, changed <-chan struct{})) *Tracker {
	return &Tracker{
		store: s, nodes: nodes, ended: make(map[Lease]time.Time), changed: make(chan struct{}),
		wake: make(chan struct{}, 1),
	}
}

// IsTold reports whether the store tells when leases end. If it does not, the caller has to look.
func (t *Tracker) IsTold() bool {
	_, ok := t.store.(store.LeaseFollower)
	return ok
}

// Ended returns when it was known that a lease has ended. It has if ok.
func (t *Tracker) Ended(l Lease) (at time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok = t.ended[l]
	return at, ok
}

// Changed returns a channel that is closed when the end of another lease is known.
func (t *Tracker) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// Run notes the ends of which the store tells, until ctx ends.
func (t *Tracker) Run(ctx context.Context) {
	f, ok := t.store.(store.LeaseFollower)
	if !ok {
		return
	}
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { _ = f.FollowLeases(ctx, t.tell) })
	looked := make(map[Lease]bool)
	for {
		var again <-chan time.Time
		names := t.take()
		nodes, changed := t.nodes()
		if t.Look(ctx, due(nodes, names, looked)) {
			looked = leasesOf(nodes)
		} else {
			for _, name := range names {
				t.note(name)
			}
			again = time.After(retryPause)
		}
		select {
		case <-t.wake:
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// tell has Run look at a lease.
func (t *Tracker) tell(name string) {
	t.note(name)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *Tracker) note(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.due, name) {
		t.due = append(t.due, name)
	}
}

func (t *Tracker) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := t.due
	t.due = nil
	return names
}

// due returns the last leases of the nodes that are told of, by the names of their leases, and those that were not
// looked at yet: they may have ended before the registry had them.
func due(nodes []registry.Node, told []string, looked map[Lease]bool) (all []Lease) {
	every := slices.Contains(told, "")
	for l := range leasesOf(nodes) {
		if every || !looked[l] || slices.Contains(told, registry.LeaseOf(l.Node)) {
			all = append(all, l)
		}
	}
	return all
}

// leasesOf returns the last leases of nodes that have had one.
func leasesOf(nodes []registry.Node) map[Lease]bool {
	all := make(map[Lease]bool, len(nodes))
	for _, n := range nodes {
		if n.Epoch != 0 {
			all[Of(n)] = true
		}
	}
	return all
}

// Look asks the store whether leases have ended that were not known to. It reports whether the store has answered.
func (t *Tracker) Look(ctx context.Context, all []Lease) (answered bool) {
	var wg sync.WaitGroup
	failed := make(chan struct{}, len(all))
	slots := make(chan struct{}, maxLooks)
	for _, l := range all {
		if _, ended := t.Ended(l); ended {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			// The answer of the store is final: see store.ErrFenced.
			_, err := t.store.Apply(ctx, store.Fence{Lease: registry.LeaseOf(l.Node), Epoch: l.Epoch}, nil, nil)
			switch {
			case errors.Is(err, store.ErrFenced):
				t.end(l)
			case err != nil:
				failed <- struct{}{}
			}
		})
	}
	wg.Wait()
	return len(failed) == 0
}

func (t *Tracker) end(l Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ended := t.ended[l]; ended {
		return // the first time is the right one
	}
	t.ended[l] = time.Now()
	close(t.changed)
	t.changed = make(chan struct{})
}
