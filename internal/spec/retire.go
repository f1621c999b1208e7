package spec

import (
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/supervisor"
)

// Retain returns the tree with additional pools, by path, that are no longer in the file, so
// that their instances can finish. A pool replaces a node of the tree at its path. A missing
// parent is added with the default settings. Dependencies of the pool that no longer exist are
// dropped. The result shares unchanged parts with t.
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

// retired returns the supervisor of a pool that is no longer in the file.
func retired(g *Agent, names map[string]bool) *Node {
	made := *g
	made.DependsOn = slices.DeleteFunc(slices.Clone(g.DependsOn), func(name string) bool {
		return !names[name] || names[g.Name] // otherwise the new node of that name could cause a cycle
	})
	n := made.pool()
	n.Retired, n.Suspended = true, false
	return n
}

// retain returns a copy of the node with a pool at a path below it.
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
