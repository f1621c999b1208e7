// Package placing runs each agent on one node of a fleet, and never on two: before an agent is started, its place is
// written into the store, and it is started on another node only when its last incarnation has certainly ended there.
package placing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/leases"
	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
)

// Prefix is the prefix of the keys of places, which end with the paths of agents.
const Prefix = "cluster/places"

// Place says where the last incarnation of an agent was started, or was about to be.
type Place struct {
	Path        string `json:"path"`
	Node        string `json:"node"`
	Epoch       uint64 `json:"epoch"` // of the lease of the node
	Kind        string `json:"kind"`  // of the runtime
	Incarnation uint64 `json:"incarnation"`
	SpecHash    string `json:"spec_hash,omitempty"`
	Token       string `json:"token,omitempty"`
	// Within is how long the incarnation may take to end when its node has lost its lease.
	Within time.Duration `json:"within"`
	At     time.Time     `json:"at"` // when the record was made
	// Before has the other nodes on which the agent has run, the last one first.
	Before []string `json:"before,omitempty"`
}

// maxBefore bounds Place.Before.
const maxBefore = 7

// killTime is how long the processes of an incarnation may take to end after they were killed.
const killTime = time.Second

// Places has the places of all agents. Only the controller changes them.
type Places struct {
	Options

	mu       sync.Mutex
	local    map[string]runtime.Runtime // those of this node, by kind
	all      map[string]Place
	damaged  map[string]error           // of agents whose record cannot be used, by path
	settled  map[leases.Lease]bool      // those that are known to have ended, and had places
	sessions map[string]tracked         // of agents on other nodes, by path
	refused  map[leases.Lease]time.Time // when a node said that it has no lease
	fleet    *placement.Fleet
	want     func(path string) (placement.Want, error)
	homeless func(path string)
}

// Options of Places.
type Options struct {
	Store store.Store   // all writes to it are fenced by the lease of the controller
	Node  string        // on which this process runs
	Epoch func() uint64 // returns that of the lease of the node, and 0 while it has none
	// Nodes returns the nodes of the fleet.
	Nodes func() []registry.Node
	// Leases knows which leases of these have ended. Its owner runs it.
	Leases *leases.Tracker
	// Runtime returns a runtime of another node.
	Runtime func(node, kind string) runtime.Runtime
	// Lost is called for each lease of another node that has ended while agents had their places there.
	Lost   func(node string, epoch uint64)
	Logger *slog.Logger
}

// Open reads the places.
func Open(ctx context.Context, o Options) (*Places, error) {
	p := &Places{
		Options: o, local: map[string]runtime.Runtime{}, all: map[string]Place{}, damaged: map[string]error{},
		settled: map[leases.Lease]bool{}, sessions: map[string]tracked{}, refused: map[leases.Lease]time.Time{},
	}
	all, damaged, err := Read(ctx, o.Store)
	for _, place := range all {
		p.all[place.Path] = place
	}
	for _, e := range damaged {
		p.damaged[e.Path] = e
		o.Logger.Error("an agent is not started, since it is not known where it runs", "path", e.Path, "error", e)
	}
	if err == nil {
		p.look(ctx)
	}
	return p, err
}

// Read returns the places that are in a store, sorted by path, and what is wrong with records that cannot be used.
func Read(ctx context.Context, s store.Store) (all []Place, damaged []*DamagedError, err error) {
	for r, err := range store.All(ctx, s, Prefix) {
		if err != nil {
			return nil, nil, fmt.Errorf("reading where the agents are: %w", err)
		}
		place, err := decode(r)
		if bad, ok := errors.AsType[*DamagedError](err); ok {
			damaged = append(damaged, bad)
			continue
		}
		all = append(all, place)
	}
	return all, damaged, nil
}

// Of returns the place of an agent.
func (p *Places) Of(path string) (Place, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	place, ok := p.all[path]
	return place, ok
}

// All returns all places, sorted by path.
func (p *Places) All() []Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Place, 0, len(p.all))
	for _, path := range slices.Sorted(maps.Keys(p.all)) {
		all = append(all, p.all[path])
	}
	return all
}

// Count returns how many agents have their places on each node.
func (p *Places) Count() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	agents := make(map[string]int)
	for _, place := range p.all {
		agents[place.Node]++
	}
	return agents
}

// elsewhere returns the place of an agent if it is on another node.
func (p *Places) elsewhere(path string) (Place, bool) {
	place, ok := p.Of(path)
	return place, ok && place.Node != p.Node
}

// take writes that an incarnation is about to be started on a node.
func (p *Places) take(ctx context.Context, node, kind string, l runtime.Launch) (Place, error) {
	epoch := p.epochOf(node)
	if epoch == 0 {
		return Place{}, fmt.Errorf("%s: %w", l.Path, runtime.ErrFenced)
	}
	place := Place{
		Path: l.Path, Node: node, Epoch: epoch, Kind: kind, Incarnation: l.Incarnation, SpecHash: l.SpecHash,
		Token: l.Token, Within: l.Grace + killTime, At: time.Now().UTC().Round(0),
	}
	if last, ok := p.Of(l.Path); ok {
		place.Before = last.before(node)
	}
	value, err := json.Marshal(place)
	if err != nil {
		return Place{}, err
	}
	_, err = p.Store.Apply(ctx, store.Fence{}, nil,
		[]store.Op{{Kind: store.Put, Key: Prefix + "/" + l.Path, Value: value}})
	if err == nil || errors.Is(err, store.ErrUnknown) { // in doubt it is there
		p.mu.Lock()
		p.all[l.Path] = place
		p.mu.Unlock()
	}
	if err != nil {
		return Place{}, fmt.Errorf("writing where %s is to run: %w: %w", l.Path, runtime.ErrFenced, err)
	}
	return place, nil
}

// before returns Place.Before of a place on a node that follows this one.
func (p Place) before(node string) []string {
	all := slices.DeleteFunc(append([]string{p.Node}, p.Before...), func(name string) bool { return name == node })
	return slices.Compact(all[:min(len(all), maxBefore)])
}

// isOf reports whether a place was written for an incarnation.
func (p Place) isOf(l runtime.Launch, kind string) bool {
	return l.Token != "" && p.Token == l.Token && p.Incarnation == l.Incarnation && p.Kind == kind
}

// forget removes the places of agents.
func (p *Places) forget(ctx context.Context, paths ...string) error {
	var ops []store.Op
	for _, path := range paths {
		ops = append(ops, store.Op{Kind: store.Delete, Key: Prefix + "/" + path})
	}
	if _, err := p.Store.Apply(ctx, store.Fence{}, nil, ops); err != nil {
		return fmt.Errorf("removing where agents have run: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, path := range paths {
		delete(p.all, path)
		delete(p.sessions, path)
		if p.fleet != nil {
			p.fleet.Free(path)
		}
	}
	return nil
}

// ending returns when an incarnation on another node has certainly ended: after the lease of its node, and the time
// that it may take to stop. It reports whether that is known, because the lease has ended.
func (p *Places) ending(place Place) (at time.Time, known bool) {
	at, known = p.Leases.Ended(place.lease())
	return at.Add(place.Within), known && place.Node != p.Node
}

// end is ending, and reports whether that time is over.
func (p *Places) end(place Place) (at time.Time, ok bool) {
	at, ok = p.ending(place)
	return at, ok && !time.Now().Before(at)
}

// IsUp reports whether a node is there, as far as it is known.
func (p *Places) IsUp(node string) bool {
	epoch := p.epochOf(node)
	_, ended := p.Leases.Ended(leases.Lease{Node: node, Epoch: epoch})
	return epoch != 0 && !ended
}

// IsAway reports whether an agent has its place on another node, whose lease has not ended.
func (p *Places) IsAway(path string) bool {
	place, ok := p.elsewhere(path)
	if !ok {
		return false
	}
	_, lost := p.ending(place)
	return !lost
}

// HasAway reports whether an agent has its place on another node, whose lease has not ended.
func (p *Places) HasAway() bool {
	return slices.ContainsFunc(p.All(), func(place Place) bool { return p.IsAway(place.Path) })
}

// doubt says why it is not known whether an incarnation on another node has ended.
func (p *Places) doubt(place Place) string {
	at, ok := p.Leases.Ended(place.lease())
	if !ok {
		return fmt.Sprintf("it was started on node %s, whose lease has not ended yet", place.Node)
	}
	left := time.Until(at.Add(place.Within)).Round(100 * time.Millisecond)
	return fmt.Sprintf("it was started on node %s, which is lost, and may take %v more to stop there", place.Node,
		max(0, left))
}
