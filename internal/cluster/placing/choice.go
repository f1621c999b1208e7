package placing

import (
	"fmt"
	pathpkg "path"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/leases"
	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// refusedTime is the time in which a node gets no agents after it has refused one because it has no lease.
const refusedTime = 2 * time.Second

// Follow sets what agents want. want says where one may run; its error is why it may run nowhere. homeless is called
// for one that no node takes. Before, none can be started.
func (p *Places) Follow(want func(path string) (placement.Want, error), homeless func(path string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want, p.homeless = want, homeless
}

// wanted says where an agent may run. Its group are those with the same pool or supervisor.
func (p *Places) wanted(path string) (placement.Want, error) {
	p.mu.Lock()
	damaged := p.damaged[path]
	p.mu.Unlock()
	if damaged != nil {
		return placement.Want{}, damaged
	}
	w, err := p.want(path)
	w.Path, w.Group = path, pathpkg.Dir(path)
	return w, err
}

// choose returns the node on which an agent is to be started, and keeps the room for it there.
func (p *Places) choose(path string) (node string, err error) {
	w, err := p.wanted(path)
	if err == nil {
		p.mu.Lock()
		p.updateFleet()
		if node, err = p.fleet.Choose(w); err == nil {
			p.fleet.Place(path, w.Group, node)
		}
		p.mu.Unlock()
	}
	switch {
	case err != nil && p.isRefused():
		return "", fmt.Errorf("%w: %w", runtime.ErrFenced, err) // it is tried again soon
	case err != nil:
		p.homeless(path)
		return "", fmt.Errorf("%w: %w", runtime.ErrNoNode, err)
	}
	return node, nil
}

// isRefused reports whether a node has refused an agent a moment ago.
func (p *Places) isRefused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.refused {
		if time.Since(at) < refusedTime {
			return true
		}
	}
	return false
}

// IsTaken reports whether a node takes an agent.
func (p *Places) IsTaken(path string) bool {
	_, err := p.next(path)
	return err == nil
}

// Move returns where an agent has to move, and why it cannot stay on its node; to is "" if it stays.
func (p *Places) Move(path string) (to, why string) {
	w, err := p.wanted(path)
	if err != nil {
		return "", ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.all[path]; !ok || p.fleet == nil {
		return "", ""
	}
	return p.fleet.Move(w)
}

// Update takes over which nodes there are now; before, Move answers as of the last call.
func (p *Places) Update() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updateFleet()
}

// updateFleet needs mu.
func (p *Places) updateFleet() {
	if p.fleet == nil {
		p.fleet = placement.NewFleet()
		for path, place := range p.all {
			p.fleet.Place(path, pathpkg.Dir(path), place.Node)
		}
	}
	var nodes []placement.Node
	now := time.Now()
	for _, n := range p.Nodes() {
		at := leases.Of(n)
		_, ended := p.Leases.Ended(at)
		state := placement.Ready
		switch {
		case n.Name == p.Node && p.Epoch() == 0, n.Name != p.Node && (n.Epoch == 0 || n.Ends || ended),
			now.Sub(p.refused[at]) < refusedTime:
			state = placement.Lost
		case n.Draining:
			state = placement.Draining
		}
		nodes = append(nodes, placement.Node{Name: n.Name, Labels: n.Labels, Capacity: n.Capacity, State: state})
	}
	p.fleet.SetNodes(nodes)
}

// epochOf returns the epoch of the lease that a node has, or has had last; 0 if it has none.
func (p *Places) epochOf(node string) uint64 {
	if node == p.Node {
		return p.Epoch()
	}
	for _, n := range p.Nodes() {
		if n.Name == node {
			return n.Epoch
		}
	}
	return 0
}

// refuse notes that a node has no lease now.
func (p *Places) refuse(place Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[place.lease()] = time.Now()
}
