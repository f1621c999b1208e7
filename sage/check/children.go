package check

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/syntax"
)

// childNames declares the names that children of a supervisor have after as. Siblings use such a
// name as the handle of the agent.
func (c *checker) childNames(s *Supervisor, children []*Child) map[string]*Object {
	named := map[string]*Object{}
	others := map[string]syntax.Node{} // children without a name of their own, by the name of their target
	for _, child := range children {
		switch n := child.Node; {
		case n.Process != nil:
			others[n.Process.Value] = n.Process
		case n.Name == nil && others[n.Target.Last().Name] == nil:
			others[n.Target.Last().Name] = n.Target
		}
	}
	for _, child := range children {
		n := child.Node
		if n.Name == nil {
			continue
		}
		name := n.Name.Name
		child.Name = &Object{Kind: ChildName, Name: name, Span: n.Name.Span, Node: n, Module: s.Object.Module}
		if child.Agent != nil {
			child.Name.Type = child.Agent.Object.Type
		}
		c.info.Defs[n.Name] = child.Name
		if first := named[name]; first != nil {
			c.duplicate(n.Name, CodeTwice, first.Span, "give one of them another name", "two children are called `%s`",
				truncate(name))
			continue
		}
		if first := others[name]; first != nil {
			c.duplicate(n.Name, CodeTwice, first.Extent(), "give it another name",
				"another child is called `%s` already", truncate(name))
		}
		named[name] = child.Name
	}
	return named
}

// warnUnnamed warns of unnamed children of the same kind that have persistent beliefs, because
// those belong to the position of a child.
func (c *checker) warnUnnamed(s *Supervisor) {
	first := map[*Object]*Child{}
	for _, child := range s.Children {
		var kind *Object
		switch {
		case child.Name != nil || child.Process != "":
			continue
		case child.Agent != nil:
			kind = child.Agent.Object
		default:
			kind = child.Supervisor.Object
		}
		before := first[kind]
		if before == nil {
			first[kind] = child
			continue
		}
		if !child.hasPersistent(0) {
			continue
		}
		target := child.Node.Target
		c.warn(target, CodeUnnamed, "give each a name of its own: "+target.Last().Name+" as "+
			lowered(target.Last().Name)+" { … }",
			"child `%s` has siblings of its kind and no name: what it keeps belongs to its position among "+
				"them, and is another one's when children are added, removed or moved", kind.Name)
	}
}

// hasPersistent reports whether a child, or something below it, has persistent beliefs.
func (n *Child) hasPersistent(depth int) bool {
	if n.Agent != nil {
		return n.Agent.hasPersistent()
	}
	return n.Supervisor != nil && depth < MaxDepth &&
		slices.ContainsFunc(n.Supervisor.Children, func(below *Child) bool { return below.hasPersistent(depth + 1) })
}

// lowered returns a name in the style of a variable.
func lowered(name string) string { return strings.ToLower(truncate(name)) }
