package spec

import (
	"reflect"
	"slices"
)

// Changes are the differences between a tree and an earlier one, by path.
type Changes struct {
	// Removed and Added are supervisors and agents, in the order of their tree, without their
	// descendants. One that has moved, or has changed between agent and supervisor, is in both.
	Removed, Added []string
	// Changed are agents in both trees that differ in any way. Hash tells whether a change
	// needs a restart.
	Changed []string
	// Supervisors are supervisors in both trees whose specification, children or order of
	// children differ in any way.
	Supervisors []string
}

// Empty reports whether the trees are the same.
func (c Changes) Empty() bool {
	return len(c.Removed)+len(c.Added)+len(c.Changed)+len(c.Supervisors) == 0
}

// Compare returns the differences between a tree and an earlier one. Both roots must have the
// same name.
func Compare(earlier, later *Tree) Changes {
	var c Changes
	c.compare(later.Root.Name, earlier.Root, later.Root)
	return c
}

// compare reports whether anything in or below the supervisors differs.
func (c *Changes) compare(path string, earlier, later *Node) (differ bool) {
	before := make(map[string]Child, len(earlier.Children))
	for _, child := range earlier.Children {
		before[child.Name()] = child
	}
	at := len(c.Supervisors) // parents precede their descendants
	for _, child := range later.Children {
		name := child.Name()
		below := path + "/" + name
		was, ok := before[name]
		switch {
		case !ok, (was.Node == nil) != (child.Node == nil):
			c.Added = append(c.Added, below)
			differ = true
			continue // it stays in before, and is also removed
		case child.Node != nil:
			differ = c.compare(below, was.Node, child.Node) || differ
		case !reflect.DeepEqual(was.Agent, child.Agent):
			c.Changed = append(c.Changed, below)
			differ = true
		}
		delete(before, name)
	}
	for _, child := range earlier.Children {
		if _, gone := before[child.Name()]; gone {
			c.Removed = append(c.Removed, path+"/"+child.Name())
			differ = true
		}
	}
	if differ || !sameNode(earlier, later) {
		c.Supervisors = slices.Insert(c.Supervisors, at, path)
		return true
	}
	return false
}

// sameNode reports whether two supervisors are equal, except for the content of their children.
func sameNode(a, b *Node) bool {
	x, y := *a, *b
	x.Children, y.Children = nil, nil
	return reflect.DeepEqual(x, y) && slices.EqualFunc(a.Children, b.Children,
		func(a, b Child) bool { return a.Name() == b.Name() })
}
