package spec

import (
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/supervisor"
)

// Retain returns the tree with pools that are no longer in it, so that their instances can
// finish: by path, what the instances are made of. A pool
// hides what the tree has in its place, and is in a supervisor of the same kind
// as the default one if that is gone, too. It depends on what is still there of
// what it depended on. What does not change is shared with t.
func (t *Tree) Retain(pools map[string]*Agent) *Tree {
	if len(pools) == 0 {
		return t
	}
	names := make(map[string]bool)
	for _, c := range t.All() {
		names[c.Name()] = true
	}
	kept := *t
	for _, path := range slices.Sorted(maps.Keys(pools)) {
		if rest, ok := strings.CutPrefix(path, t.Root.Name+"/"); ok {
			kept.Root = kept.Root.retain(strings.Split(rest, "/"), retired(pools[path], names))
		}
	}
	return &kept
}

// retired returns a pool that is no longer in the file.
func retired(g *Agent, names map[string]bool) *Node {
	made := *g
	made.DependsOn = slices.DeleteFunc(slices.Clone(g.DependsOn), func(name string) bool {
		return !names[name] || names[g.Name] // what has taken its name may be waited for by what it waited for
	})
	n := made.pool()
	n.Retired, n.Suspended = true, false
	return n
}

// retain returns a copy of the node with a pool somewhere below it.
func (n *Node) retain(path []string, pool *Node) *Node {
	kept := *n
	kept.Children = slices.Clone(n.Children)
	at := slices.IndexFunc(kept.Children, func(c Child) bool { return c.Name() == path[0] })
	if at < 0 {
		at = len(kept.Children)
		kept.Children = append(kept.Children, Child{})
	}
	if len(path) == 1 {
		kept.Children[at] = Child{Node: pool}
		return &kept
	}
	parent := kept.Children[at].Node
	if parent == nil || parent.Template != nil {
		parent = &Node{Name: path[0], Retired: true,
			Limit: supervisor.Escalating(supervisor.DefaultMaxRestarts, supervisor.DefaultWithin)}
	}
	kept.Children[at] = Child{Node: parent.retain(path[1:], pool)}
	return &kept
}
