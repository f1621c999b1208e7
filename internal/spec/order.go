package spec

// Order is what agents and supervisors of a tree depend on, and in which order
// the agents are stopped because of that: what depends on others before them, be
// it that the agent says so or a supervisor that it is in. An agent depends on a
// supervisor by depending on all agents in it. The children of a rest_for_one
// supervisor depend on those before them, which is what that strategy means, and
// so do those of a supervisor that stops them in order. Other siblings are
// stopped in no order.
//
// An Order is a snapshot of the tree and safe for concurrent use.
type Order struct {
	paths    []string // of all nodes below the root, in the order of Tree.All
	index    map[string]int
	elements []element
	graph    graph
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
			if n.StopsInOrder() {
				o.elements[i].after, last = last, i
			}
		}
	}
	adopt(Root, t.Root.Name, t.Root)
	for i, c := range children {
		o.elements[i].agent = c.Agent != nil
		o.elements[i].pool = c.Node != nil && c.Node.Template != nil
		for _, name := range c.DependsOn() {
			o.elements[i].needs = append(o.elements[i].needs, byName[name])
		}
		if c.Node != nil {
			adopt(i, o.paths[i], c.Node)
		}
	}
	o.graph = newGraph(o.elements)
	return o
}

// Needs are the paths of the agents and supervisors that an agent or supervisor
// depends on, in the order of the file, those of the supervisors it is in after
// its own. It waits for an agent until that is ready, for a supervisor until all
// agents in it are.
func (o *Order) Needs(path string) []string {
	var needs []string
	seen := make(map[int]bool)
	i, ok := o.index[path]
	if !ok {
		return nil
	}
	for ; i != Root; i = o.elements[i].parent {
		for _, n := range o.elements[i].needs {
			if !seen[n] {
				seen[n] = true
				needs = append(needs, o.paths[n])
			}
		}
	}
	return needs
}

// chosen reports whether an element is an agent that it is about.
func (o *Order) chosen(i int, choose func(path string) bool) bool {
	return o.elements[i].agent && (choose == nil || choose(o.paths[i]))
}

// Has reports whether there is such an agent or supervisor in the tree.
func (o *Order) Has(path string) bool {
	_, ok := o.index[path]
	return ok
}
