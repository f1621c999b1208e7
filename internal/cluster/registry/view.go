package registry

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/cluster/record"
	"github.com/coppice-dev/coppice/internal/store"
)

// ErrRemoved is returned for a node that is not in the fleet.
var ErrRemoved = errors.New("the node is not in the fleet, or was removed from it; join again with: " +
	"coppice cluster join TOKEN")

// View is a copy of the registry that follows the store. While that cannot be reached, it stays as it is.
type View struct {
	s      store.Store
	logger *slog.Logger

	mu      sync.RWMutex
	nodes   map[string]Node
	changed chan struct{} // closed when they change
	bad     map[string]bool
}

// NewView reads the registry. Run keeps the view up to date.
func NewView(ctx context.Context, s store.Store, logger *slog.Logger) (*View, error) {
	v := &View{s: s, logger: logger, nodes: map[string]Node{}, changed: make(chan struct{}), bad: map[string]bool{}}
	_, err := v.load(ctx)
	return v, err
}

// Run follows the store until ctx ends.
func (v *View) Run(ctx context.Context) {
	record.Follow(ctx, v.s, Prefix, v.load, v.apply, func(err error) {
		v.logger.Warn("cannot follow the nodes of the fleet; trying on", "error", err)
	})
}

// load replaces the view by what the store has.
func (v *View) load(ctx context.Context) (store.Rev, error) {
	records, rev, err := v.s.Snapshot(ctx, Prefix)
	if err != nil {
		return 0, err
	}
	nodes := make(map[string]Node, len(records))
	for _, r := range records {
		if n, ok := v.decode(r); ok {
			nodes[n.Name] = n
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !maps.EqualFunc(nodes, v.nodes, Node.equal) {
		v.nodes = nodes
		v.wake()
	}
	return rev, nil
}

func (v *View) apply(c store.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range c.Put {
		if n, ok := v.decode(r); ok {
			v.nodes[n.Name] = n
		} else {
			delete(v.nodes, strings.TrimPrefix(r.Key, Prefix+"/"))
		}
	}
	for _, key := range c.Deleted {
		delete(v.nodes, strings.TrimPrefix(key, Prefix+"/"))
	}
	v.wake()
}

// decode reads a record, and logs one that cannot be read, once.
func (v *View) decode(r store.Record) (Node, bool) {
	n, err := decode(r)
	if err == nil {
		return n, true
	}
	if !v.bad[r.Key] {
		v.bad[r.Key] = true
		v.logger.Warn("the record of a node cannot be read and is left alone", "key", r.Key, "error", err)
	}
	return n, false
}

// wake needs mu.
func (v *View) wake() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// All returns the nodes, sorted by name, and a channel that is closed when they change.
func (v *View) All() (nodes []Node, changed <-chan struct{}) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(v.nodes)) {
		nodes = append(nodes, v.nodes[name])
	}
	return nodes, v.changed
}

// Get returns a node.
func (v *View) Get(name string) (Node, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n, ok := v.nodes[name]
	return n, ok
}

// Admit returns nil if a node with that key is in the fleet. It is an mtls.Admit.
func (v *View) Admit(name string, hash [32]byte) error {
	if n, ok := v.Get(name); !ok || [32]byte(n.Key) != hash {
		return ErrRemoved
	}
	return nil
}
