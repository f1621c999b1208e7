package spec

import (
	"reflect"
	"slices"
)

// Changes are the differences of a tree from an earlier one, by path.
type Changes struct {
	// Removed and Added are supervisors and agents, in the order of their tree;
	// not what is below one that is itself removed or added. What has moved, or
	// has become an agent where it was a supervisor, is removed and added.
	Removed, Added []string
	// Changed are agents that are in both trees and differ in any way. Hash tells
	// whether a change needs a restart.
	Changed []string
	// Supervisors are those that are in both trees and whose own specification,
	// children or order of children differ in any way.
	Supervisors []string
}

// Empty reports whether the trees are the same.
func (c Changes) Empty() bool {
	return len(c.Removed)+len(c.Added)+len(c.Changed)+len(c.Supervisors) == 0
}

// Compare returns how a tree differs from an earlier one. Both roots are taken
// to have the same name.
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
	at := len(c.Supervisors) // parents come before what is below them
	for _, child := range later.Children {
		name := child.Name()
		below := path + "/" + name
		was, ok := before[name]
		switch {
		case !ok, (was.Node == nil) != (child.Node == nil):
			c.Added = append(c.Added, below)
			differ = true
			continue // and stays in before, to be removed
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

// sameNode reports whether supervisors are the same but for what is below their children.
func sameNode(a, b *Node) bool {
	x, y := *a, *b
	x.Children, y.Children = nil, nil
	return reflect.DeepEqual(x, y) && slices.EqualFunc(a.Children, b.Children,
		func(a, b Child) bool { return a.Name() == b.Name() })
}
