package daemon

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// fleet is what is wanted at one moment. It is never changed, only replaced by
// another one (see apply): who has one may look at it as long as it likes. What
// is in no fleet any more may still be on its way out.
type fleet struct {
	tree   *spec.Tree // with the instances of its pools, and with those pools that are retired
	file   *spec.Tree // as it was declared
	config ConfigInfo
	agents map[string]*spec.Agent // by path
	nodes  map[string]*spec.Node  // by path, with the root
	root   *supervisor.Spec
	specs  map[string]supervisor.ChildSpec // of all below the root, without Saved
	patrol spec.Patrol
	order  []string             // all paths below the root, in start order
	hashes map[string]spec.Hash // of agents, without what is in their files
	files  map[string]bool      // that agents are made of; true for those of their environment
	slots  map[string]bool      // names of those of its agents
	needs  map[string][]string  // by path: what has to be ready before the patrol starts it
	pauses []string             // supervisors that a limit may pause
	after  map[string]string    // by path: the sibling that its supervisor starts before it
}

// fleet is the one in force.
func (c *Controller) fleet() *fleet { return c.wanted.Load() }

// newFleet makes a fleet of a tree. Its supervisors have no specifications yet.
func newFleet(tree *spec.Tree, config ConfigInfo) *fleet {
	f := &fleet{
		tree: tree, file: tree, config: config,
		agents: make(map[string]*spec.Agent), nodes: map[string]*spec.Node{tree.Root.Name: tree.Root},
		specs: make(map[string]supervisor.ChildSpec), patrol: tree.Patrol, needs: make(map[string][]string),
		after:  make(map[string]string),
		hashes: make(map[string]spec.Hash), files: make(map[string]bool), slots: make(map[string]bool),
	}
	if f.patrol == (spec.Patrol{}) {
		f.patrol = spec.DefaultPatrol() // no file was asked
	}
	for path, child := range tree.All() {
		f.order = append(f.order, path)
		if child.Agent != nil {
			f.agents[path] = child.Agent
			if slot, err := wire.DirName(path); err == nil {
				f.slots[slot] = true
			}
			f.hashes[path] = child.Agent.DeclaredHash()
			maps.Copy(f.files, filesOf(child.Agent))
		} else {
			f.nodes[path] = child.Node
		}
	}
	f.depend()
	for path, n := range f.nodes {
		if mayPause(n) {
			f.pauses = append(f.pauses, path)
		}
	}
	slices.Sort(f.pauses)
	return f
}

// mayPause reports whether a limit may pause a supervisor: its own, or one of an agent in it.
func mayPause(n *spec.Node) bool {
	return n.Limit.OnLimit == supervisor.Pause || slices.ContainsFunc(n.Children, func(c spec.Child) bool {
		return c.Agent != nil && c.Agent.Limit.OnLimit == supervisor.Pause
	})
}

// depend finds out what the patrol waits for.
func (f *fleet) depend() {
	order := f.tree.StartOrder()
	for _, path := range f.order {
		if needs := order.Needs(path); len(needs) > 0 {
			f.needs[path] = needs
		}
	}
	for above, n := range f.nodes {
		if n.Strategy == supervisor.OneForOne {
			continue
		}
		last := ""
		for _, child := range n.Children {
			path := above + "/" + child.Name()
			if last != "" {
				f.after[path] = last
			}
			last = path
		}
	}
}

// deferred reports whether the patrol starts a child, and not its supervisor:
// all children of the root and of pools, beside each other, and of others what
// depends on something, unless the strategy gives them an order; and what is suspended.
func deferred(n *spec.Node, root bool, child spec.Child) bool {
	suspended := n.Suspended
	if child.Agent != nil {
		suspended = suspended || child.Agent.Suspended
	} else {
		suspended = suspended || child.Node.Suspended
	}
	return suspended || n.Strategy == supervisor.OneForOne &&
		(root || n.Template != nil || len(child.DependsOn()) > 0) && !hasAidefile(child.Agent)
}

// check reports what a fleet asks for and this machine does not have.
func (f *fleet) check(places map[string]runtime.Runtime) error {
	for path, child := range f.tree.All() {
		if a := child.Agent; a != nil && places[a.Runtime.String()] == nil {
			return fmt.Errorf("agent %s: there is no runtime %v here", path, a.Runtime)
		}
	}
	return nil
}

// specify makes the specifications of its supervisors. An agent that is the same
// in an earlier fleet keeps the one that it has there: it may know what its first
// incarnation was started with. earlier may be nil.
func (f *fleet) specify(c *Controller, earlier *fleet,
	saved func(string) (*supervisor.Saved, *supervisor.SavedSelf)) error {
	b := &builder{
		start: c.startOf, saved: saved, suspended: !c.project.begun().IsZero(), retired: make(map[string]bool),
	}
	for _, n := range f.nodes {
		if n.Retired {
			b.retired[n.Name] = true
		}
	}
	if earlier != nil {
		b.known = func(path string, a *spec.Agent) (supervisor.ChildSpec, bool) {
			was, ok := earlier.specs[path]
			return was, ok && was.Start != nil && reflect.DeepEqual(earlier.agents[path], a)
		}
	}
	root, err := b.node(f.tree.Root, f.tree.Root.Name)
	if err != nil {
		return err
	}
	if c.opts.Once && root.AutoShutdown == supervisor.NeverShutdown && !f.awaits() {
		root.AutoShutdown = supervisor.WhenDone
	}
	f.root = root
	f.index(root.Name, root)
	return nil
}

// awaits reports whether there is anything in the fleet that starts something by
// itself later, though nothing runs now: an order, the trigger of an Aidefile, or
// the check of a pool. What the file suspends or disables does not.
func (f *fleet) awaits() bool {
	if f.tree.Root.Suspended {
		return false
	}
	for _, o := range f.tree.Orders {
		if !o.Disabled && slices.ContainsFunc(o.Gates, func(g spec.Gate) bool { return g.Kind != spec.Manual }) {
			return true
		}
	}
	for path, a := range f.agents {
		if a.Aide != nil && a.Aide.File.StartsItself() && !f.suspended(path) {
			return true
		}
	}
	for path, n := range f.nodes {
		if p := n.Template; p != nil && p.Pool != nil && len(p.Pool.Check) > 0 && p.Pool.Ceiling() > 0 &&
			!f.suspended(path) {
			return true
		}
	}
	return false
}

// index remembers the specifications below a supervisor.
func (f *fleet) index(path string, s *supervisor.Spec) {
	for _, child := range s.Children {
		bare := child
		bare.Saved = nil
		f.specs[path+"/"+child.ID] = bare
		if child.Supervisor != nil {
			f.index(path+"/"+child.ID, child.Supervisor)
		}
	}
}

// spec is the specification of a supervisor of the fleet; nil if there is none.
func (f *fleet) spec(path string) *supervisor.Spec {
	if path == f.root.Name {
		return f.root
	}
	return f.specs[path].Supervisor
}

// suspended reports whether the file suspends an agent, or something above it.
func (f *fleet) suspended(path string) bool {
	if a := f.agents[path]; a != nil && a.Suspended {
		return true
	}
	for above, _, ok := cutLast(path); ok; above, _, ok = cutLast(above) {
		if n := f.nodes[above]; n != nil && n.Suspended {
			return true
		}
	}
	return f.tree.Root.Suspended
}

// retired reports whether a node is there only to finish: see spec.Tree.Retain.
func (f *fleet) retired(path string) bool {
	n := f.nodes[path]
	if n == nil {
		above, _, _ := cutLast(path)
		n = f.nodes[above]
	}
	return n != nil && n.Retired
}

// has reports whether a node is wanted.
func (f *fleet) has(path string) bool { return f.agents[path] != nil || f.nodes[path] != nil }

// declareBeliefs tells the book which beliefs agents of the fleet may have.
func (c *Controller) declareBeliefs(f *fleet) {
	for path, a := range f.agents {
		c.beliefs.Declare(path, a.Beliefs)
	}
}

// forgets reports whether what the limit over a node has counted and decided
// ends with the daemon.
func (f *fleet) forgets(path string) bool {
	if a := f.agents[path]; a != nil && a.Limit != (supervisor.Limit{}) {
		return f.tree.Recall.Forgets(a.Limit)
	}
	above, _, _ := cutLast(path)
	return f.forgetsOwn(above)
}

// forgetsOwn is the same of what a supervisor counts over all of its children.
func (f *fleet) forgetsOwn(path string) bool {
	n := f.nodes[path]
	return n != nil && f.tree.Recall.Forgets(n.Limit)
}

// pastOf reads what the store knows of the nodes that are new in a fleet. They may
// have been in an earlier one.
func (c *Controller) pastOf(ctx context.Context, f *fleet) (*agent.SavedState, error) {
	p := &agent.SavedState{
		Orderly: true, Records: make(map[string]*agent.Record), Selves: make(map[string]*agent.SelfRecord),
	}
	old := c.fleet()
	var stored []store.Record
	for _, path := range f.order {
		if old.has(path) || !old.has(parent(path)) { // what is below a new one is read with it
			continue
		}
		records, _, err := c.opts.Store.Snapshot(ctx, agent.RecordPrefix+"/"+store.PathKey(path))
		if err != nil {
			return nil, fmt.Errorf("reading what is known of %s: %w", path, err)
		}
		stored = append(stored, records...)
	}
	records, selves, _ := agent.ReadRecords(stored)
	before := func(path string) bool { // nothing is known of it but from an earlier daemon
		c.mu.Lock()
		_, gone := c.gone[path]
		c.mu.Unlock()
		_, told := c.journal.of(path)
		return !gone && !told
	}
	p.Forgets = func(path string) bool { return before(path) && f.forgets(path) }
	p.ForgetsSelf = func(path string) bool { return before(path) && f.forgetsOwn(path) }
	for path, r := range records {
		if f.has(path) && !old.has(path) {
			r.Incarnation = max(r.Incarnation, c.last(path)) // the store may be behind
			if !r.IsKept() {
				r.State, r.Reason = supervisor.Waiting.String(), ""
			}
			p.Records[path], p.Selves[path] = r, selves[path]
		}
	}
	for path := range f.agents {
		if old.has(path) {
			continue
		}
		c.mu.Lock()
		_, ok := c.gone[path]
		c.mu.Unlock()
		if ok {
			p.Records[path] = c.lastOf(path, 0)
		}
		if n := c.last(path); n > 0 { // or not have heard of it at all
			p.Of(path).Incarnation = max(p.Of(path).Incarnation, n)
		}
	}
	return p, nil
}
