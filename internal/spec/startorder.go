package spec

// StartOrder holds the dependencies of the agents and supervisors of a tree. Agents start
// after their dependencies and stop before them.
//
//   - A dependency is declared by the agent or by a supervisor that it is in.
//   - To depend on a supervisor is to depend on all agents in it.
//   - The children of a rest_for_one supervisor depend on those before them, and so do
//     those of a supervisor that stops its children in order. Other siblings stop in
//     no particular order.
//
// A StartOrder is a snapshot of the tree and safe for concurrent use.
type StartOrder struct {
	paths    []string // of all nodes below the root, in the order of Tree.All
	index    map[string]int
	elements []element
	graph    graph
}

// StartOrder returns the order of the agents of a tree that Assemble has returned.
func (t *Tree) StartOrder() *StartOrder {
	o := &StartOrder{index: make(map[string]int)}
	byName := make(map[string]int) // without instances of pools, which dependencies cannot name
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

// Needs returns the paths of the dependencies of an agent or supervisor, in the order of the
// file: its own first, then those of the supervisors it is in. It waits until these agents,
// and all agents in these supervisors, are ready.
func (o *StartOrder) Needs(path string) []string {
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

// Has reports whether the tree has an agent or supervisor with this path.
func (o *StartOrder) Has(path string) bool {
	_, ok := o.index[path]
	return ok
}
