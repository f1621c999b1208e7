package spec

import (
	"slices"

	"github.com/coppice-dev/coppice/supervisor"
)

// Order is in which order the agents of a tree are started, and in which
// reverse order they are stopped: what an agent depends on first, be it that
// the agent says so or a supervisor that it is in. An agent depends on a
// supervisor by depending on all agents in it. The children of a rest_for_one
// supervisor depend on those before them, which is what that strategy means.
// Other siblings are in no order.
//
// An Order is a snapshot of the tree and safe for concurrent use.
type Order struct {
	paths    []string // of all nodes below the root, in the order of Tree.All
	index    map[string]int
	elements []element
	graph    graph
	sequence []int // of all vertices, each after those it waits for
}

// Order is the order of the agents of the tree, which Assemble must have made.
func (t *Tree) Order() *Order {
	o := &Order{index: make(map[string]int)}
	byName := make(map[string]int) // of what can be called by its name: not of instances of pools
	var children []Child
	for path, c := range t.All() {
		i := len(o.paths)
		o.paths, children = append(o.paths, path), append(children, c)
		o.index[path] = i
		_, taken := byName[c.Name()]
		switch {
		case c.Agent != nil && c.Agent.Instance != (Instance{}), taken && c.Node != nil && c.Node.Retired:
		default:
			byName[c.Name()] = i
		}
	}
	o.elements = make([]element, len(children))
	adopt := func(parent int, path string, n *Node) {
		last := Root
		for _, c := range n.Children {
			i := o.index[path+"/"+c.Name()]
			o.elements[i].parent, o.elements[i].after = parent, Root
			if n.Strategy == supervisor.RestForOne {
				o.elements[i].after, last = last, i
			}
		}
	}
	adopt(Root, t.Root.Name, t.Root)
	for i, c := range children {
		o.elements[i].agent = c.Agent != nil
		o.elements[i].pool = c.Node != nil && c.Node.Template != nil
		for _, name := range c.dependsOn() {
			o.elements[i].needs = append(o.elements[i].needs, byName[name])
		}
		if c.Node != nil {
			adopt(i, o.paths[i], c.Node)
		}
	}
	o.graph = newGraph(o.elements)
	o.sequence = o.graph.sequence()
	return o
}

// Needs are the paths of the agents and supervisors that an agent or supervisor
// waits for itself before it is started, in the order of the file, those of the
// supervisors it is in after its own. It waits for an agent until that is ready,
// for a supervisor until all agents in it are.
func (o *Order) Needs(path string) []string {
	var needs []string
	seen := make(map[int]bool)
	i, ok := o.index[path]
	if !ok {
		return nil
	}
	for ; i != Root; i = o.elements[i].parent {
		own := o.elements[i].needs
		if a := o.elements[i].after; a != Root {
			own = append(slices.Clone(own), a)
		}
		for _, n := range own {
			if !seen[n] {
				seen[n] = true
				needs = append(needs, o.paths[n])
			}
		}
	}
	return needs
}

// Waves groups agents such that none depends on one of its own or a later wave,
// not through agents that are not chosen, either: those of a wave can be started
// beside each other once those before are ready. There are as few waves as can
// be, each agent is in the first one that it can be in, and within a wave they
// are in the order of the file. With a nil choose, it is about all agents.
func (o *Order) Waves(choose func(path string) bool) [][]string {
	// How many chosen agents are ready one after the other before that, at least.
	before := make([]int, len(o.graph))
	for _, v := range o.sequence {
		for _, w := range o.graph[v] {
			before[v] = max(before[v], before[w])
		}
		if i := v / 2; v == ready(i) && o.chosen(i, choose) {
			before[v]++
		}
	}
	var waves [][]string
	for i, path := range o.paths {
		if !o.chosen(i, choose) {
			continue
		}
		n := before[begin(i)]
		for len(waves) <= n {
			waves = append(waves, nil)
		}
		waves[n] = append(waves[n], path)
	}
	return waves
}

// chosen reports whether an element is an agent that it is about.
func (o *Order) chosen(i int, choose func(path string) bool) bool {
	return o.elements[i].agent && (choose == nil || choose(o.paths[i]))
}

// Reverse is Waves for stopping: what depends on others is stopped before
// them, and what was started last first.
func (o *Order) Reverse(choose func(path string) bool) [][]string {
	waves := o.Waves(choose)
	slices.Reverse(waves)
	for _, w := range waves {
		slices.Reverse(w)
	}
	return waves
}

// Has reports whether there is such an agent or supervisor in the tree.
func (o *Order) Has(path string) bool {
	_, ok := o.index[path]
	return ok
}
