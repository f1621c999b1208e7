package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

// demandPrefix is the prefix of the store keys of the last answers of checks.
const demandPrefix = "pools"

// savedDemand is the last good answer of the check of a pool.
type savedDemand struct {
	Path  string `json:"path"`
	Asked int    `json:"asked"`
	Known bool   `json:"known"`
}

func demandOp(path string, d Demand) store.Op {
	value, _ := json.Marshal(savedDemand{path, d.Asked, d.Known}) // strings and numbers
	return store.Op{Kind: store.Put, Key: demandPrefix + "/" + store.PathKey(path), Value: value}
}

// Restore creates the pools of a file in the state in which the previous daemon has left them. They
// have the instances among running, which are the agents that may run, and those to start at once.
// The last answers of checks are dropped after an orderly shutdown.
func (m *Manager) Restore(ctx context.Context, declared map[string]*spec.Node, running []string, orderly bool) error {
	stored, _, err := m.Store.Snapshot(ctx, demandPrefix)
	if err != nil {
		return fmt.Errorf("reading how many instances were wanted: %w", err)
	}
	demands := make(map[string]Demand)
	for _, s := range stored {
		var d savedDemand
		if json.Unmarshal(s.Value, &d) == nil && !orderly {
			demands[d.Path] = Demand{Asked: d.Asked, Known: d.Known}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, n := range declared {
		c := newController(m, path, n.Template)
		c.demand = demands[path]
		c.size = c.demand.Size(n.Template.Pool)
		if !n.Template.Pool.OnBoot.Exists() {
			c.names = n.Template.Instances(c.size)
		}
		m.byPath[path] = c
	}
	err = m.restoreRetired(ctx)
	for _, path := range running {
		above, name := cut(path)
		if c := m.byPath[above]; c != nil {
			c.names = append(c.names, name)
		}
	}
	for _, c := range m.byPath {
		c.names = c.template.Sorted(c.names)
		c.laid = c.names
	}
	return err
}

// restoreRetired restores the pools that were retired and are still not in the file. Those without
// instances are then removed at once. Needs mu.
func (m *Manager) restoreRetired(ctx context.Context) error {
	stored, _, err := m.Store.Snapshot(ctx, retiredPrefix)
	if err != nil {
		return fmt.Errorf("reading which pools are no longer in the file: %w", err)
	}
	for _, s := range stored {
		var kept savedPool
		if json.Unmarshal(s.Value, &kept) != nil || kept.Template == nil || kept.Template.Pool == nil ||
			retiredKey(kept.Path) != s.Key {
			m.Logger.Warn("cannot read a retired pool; stopping its instances", "key", s.Key)
			continue
		}
		if m.byPath[kept.Path] != nil {
			m.Append(returned(kept.Path), store.Op{Kind: store.Delete, Key: s.Key})
			continue
		}
		c := newController(m, kept.Path, kept.Template)
		c.retired, c.booted = true, true
		c.closeFirst()
		m.byPath[kept.Path] = c
	}
	return nil
}

// Adopt adds running instances that their pools do not know yet. It reports whether there are any.
func (m *Manager) Adopt(running []string) (more bool) {
	for _, path := range running {
		above, name := cut(path)
		if c := m.Of(above); c != nil && c.adopt(name) {
			more = true
		}
	}
	return more
}

// adopt adds an instance, and reports false if the pool has it already.
func (c *Controller) adopt(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.names, name) {
		return false
	}
	c.names = c.template.Sorted(append(c.names, name))
	c.laid = c.names
	return true
}
