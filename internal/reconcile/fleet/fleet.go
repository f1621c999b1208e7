// Package fleet holds the desired state: the tree of a configuration file with the
// instances of its pools, indexed by path, and the supervisor specifications made of it.
package fleet

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Config identifies the configuration file that a Fleet was read from.
type Config struct {
	Path     string
	Revision string
	LoadedAt time.Time
}

// Fleet is the desired state at one moment. It is immutable: a change of the file or of a
// pool replaces it by another one. A node that the current Fleet no longer has may still
// be stopping.
type Fleet struct {
	Tree   *spec.Tree // with the instances of its pools, and with retired pools
	File   *spec.Tree // as declared
	Config Config
	Agents map[string]*spec.Agent          // by path
	Nodes  map[string]*spec.Node           // by path, with the root
	Root   *supervisor.Spec                // nil before Specify
	Specs  map[string]supervisor.ChildSpec // of all nodes below the root, without Saved
	Patrol spec.Patrol
	Order  []string             // all paths below the root, in start order
	Hashes map[string]spec.Hash // of agents, without the contents of their files
	Files  map[string]bool      // that agents depend on; true for environment files
	Slots  map[string]bool      // names of the slots of its agents
	Needs  map[string][]string  // by path: the paths that must be ready before it starts
	Pauses []string             // supervisors that a limit may pause
	After  map[string]string    // by path: the sibling that must have settled before it starts
	Manual map[string]bool      // by path: the reconciler starts it, and not its supervisor
}

// New indexes a tree. Its supervisors have no specifications before Specify.
func New(tree *spec.Tree, config Config) *Fleet {
	f := &Fleet{
		Tree: tree, File: tree, Config: config,
		Agents: make(map[string]*spec.Agent), Nodes: map[string]*spec.Node{tree.Root.Name: tree.Root},
		Specs: make(map[string]supervisor.ChildSpec), Patrol: tree.Patrol, Needs: make(map[string][]string),
		After: make(map[string]string), Manual: make(map[string]bool),
		Hashes: make(map[string]spec.Hash), Files: make(map[string]bool), Slots: make(map[string]bool),
	}
	if f.Patrol == (spec.Patrol{}) {
		f.Patrol = spec.DefaultPatrol() // the tree comes from no file
	}
	for path, child := range tree.All() {
		f.Order = append(f.Order, path)
		if child.Agent != nil {
			f.Agents[path] = child.Agent
			if slot, err := wire.DirName(path); err == nil {
				f.Slots[slot] = true
			}
			f.Hashes[path] = child.Agent.DeclaredHash()
			maps.Copy(f.Files, child.Agent.WatchedFiles())
		} else {
			f.Nodes[path] = child.Node
		}
	}
	f.addOrder()
	for path, n := range f.Nodes {
		if mayPause(n) {
			f.Pauses = append(f.Pauses, path)
		}
	}
	slices.Sort(f.Pauses)
	return f
}

// mayPause reports whether a limit may pause a supervisor: its own, or that of one of its agents.
func mayPause(n *spec.Node) bool {
	return n.Limit.OnLimit == supervisor.Pause || slices.ContainsFunc(n.Children, func(c spec.Child) bool {
		return c.Agent != nil && c.Agent.Limit.OnLimit == supervisor.Pause
	})
}

// Check returns an error for an agent in a runtime that this machine does not have.
func (f *Fleet) Check(runtimes map[string]runtime.Runtime) error {
	for path, child := range f.Tree.All() {
		if a := child.Agent; a != nil && runtimes[a.Runtime.String()] == nil {
			return fmt.Errorf("agent %s: there is no runtime %v here", path, a.Runtime)
		}
	}
	return nil
}

// Awaits reports whether anything in the fleet starts something later on its own, though
// nothing runs now: an order, the trigger of an Aidefile, or the check of a pool. What
// the file suspends or disables does not.
func (f *Fleet) Awaits() bool {
	if f.Tree.Root.Suspended {
		return false
	}
	for _, o := range f.Tree.Orders {
		if !o.Disabled && slices.ContainsFunc(o.Gates, func(g spec.Gate) bool { return g.Kind != spec.Manual }) {
			return true
		}
	}
	for path, a := range f.Agents {
		if a.Aide != nil && a.Aide.File.StartsItself() && !f.Suspended(path) {
			return true
		}
	}
	for path, n := range f.Nodes {
		if p := n.Template; p != nil && p.Pool != nil && len(p.Pool.Check) > 0 && p.Pool.Ceiling() > 0 &&
			!f.Suspended(path) {
			return true
		}
	}
	return false
}

// Suspended reports whether the file suspends a node, or something above it.
func (f *Fleet) Suspended(at string) bool {
	if a := f.Agents[at]; a != nil && a.Suspended {
		return true
	}
	for above := path.Dir(at); above != "."; above = path.Dir(above) {
		if n := f.Nodes[above]; n != nil && n.Suspended {
			return true
		}
	}
	return f.Tree.Root.Suspended
}

// Retired reports whether the fleet keeps a node only until it has finished: see spec.Tree.Retain.
func (f *Fleet) Retired(at string) bool {
	n := f.Nodes[at]
	if n == nil {
		n = f.Nodes[path.Dir(at)]
	}
	return n != nil && n.Retired
}

// Declared returns the declared hash of an agent. It is computed only if a is not the declaration
// in f, because another configuration has taken effect meanwhile.
func (f *Fleet) Declared(path string, a *spec.Agent) spec.Hash {
	if f.Agents[path] == a {
		return f.Hashes[path]
	}
	return a.DeclaredHash()
}

// Has reports whether the fleet has a node.
func (f *Fleet) Has(path string) bool { return f.Agents[path] != nil || f.Nodes[path] != nil }

// Forgets reports whether the counters and decisions of the limit over a node end with the daemon.
func (f *Fleet) Forgets(at string) bool {
	if a := f.Agents[at]; a != nil && a.Limit != (supervisor.Limit{}) {
		return f.Tree.RestorePolicy.Forgets(a.Limit)
	}
	return f.ForgetsOwn(path.Dir(at))
}

// ForgetsOwn is Forgets for what a supervisor counts over all of its children.
func (f *Fleet) ForgetsOwn(path string) bool {
	n := f.Nodes[path]
	return n != nil && f.Tree.RestorePolicy.Forgets(n.Limit)
}
