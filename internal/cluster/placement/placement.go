// Package placement chooses the node on which an agent runs. It is pure: it knows nodes, what they may take and what
// they have, and neither time nor store.
package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// State says whether a node takes agents.
type State uint8

const (
	Ready    State = iota // takes agents
	Draining              // takes none, and gives away those that it has
	Lost                  // its lease has ended, or is about to
)

// Node is one machine.
type Node struct {
	Name     string
	Labels   map[string]string
	Capacity int // agents that it takes; 0 is no limit
	State    State
}

// Want says where an agent may run.
type Want struct {
	Path string
	// Group is the path of the pool or supervisor of the agent. Spread and MaxPerNode count the agents of a group.
	Group  string
	Node   string            // the name of the only node; any if empty
	Labels map[string]string // that the node must have
	// Spread is a label by whose values the agents of the group are spread evenly. Empty means by nodes.
	Spread string
	// MaxPerNode is how many agents of the group a node takes; 0 is no limit.
	MaxPerNode int
}

// Fleet knows the nodes and which agents have a place on them. The cost of a choice grows with the number of nodes, not
// of agents. It is not safe for concurrent use.
type Fleet struct {
	nodes  []Node // by name
	places map[string]place
	on     map[string]int            // agents by node
	groups map[string]map[string]int // agents by group and node
}

type place struct{ group, node string }

// NewFleet returns a fleet without nodes.
func NewFleet() *Fleet {
	return &Fleet{places: map[string]place{}, on: map[string]int{}, groups: map[string]map[string]int{}}
}

// SetNodes replaces the nodes. Agents keep their places, also on nodes that are no longer there.
func (f *Fleet) SetNodes(nodes []Node) {
	f.nodes = slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
}

// Place notes that an agent has a place. Where it had one before is free.
func (f *Fleet) Place(path, group, node string) {
	f.Free(path)
	f.places[path] = place{group, node}
	f.on[node]++
	if f.groups[group] == nil {
		f.groups[group] = map[string]int{}
	}
	f.groups[group][node]++
}

// Free notes that an agent no longer has a place.
func (f *Fleet) Free(path string) {
	p, ok := f.places[path]
	if !ok {
		return
	}
	delete(f.places, path)
	if f.on[p.node]--; f.on[p.node] == 0 {
		delete(f.on, p.node)
	}
	group := f.groups[p.group]
	if group[p.node]--; group[p.node] == 0 {
		delete(group, p.node)
	}
	if len(group) == 0 {
		delete(f.groups, p.group)
	}
}

// Of returns the node on which an agent has its place; "" if it has none.
func (f *Fleet) Of(path string) string { return f.places[path].node }

// On returns how many agents have their place on a node.
func (f *Fleet) On(node string) int { return f.on[node] }

// Choose returns the node on which an agent should run, without noting it. An agent keeps its place as long as it may
// be there, since its files and sessions are. Otherwise it comes to where the fewest of its group are, by Spread, and
// then where most room is. The error is a *NoneError.
func (f *Fleet) Choose(w Want) (string, error) {
	mine := f.places[w.Path]
	in := func(node string) int { // others of the group
		n := f.groups[w.Group][node]
		if mine.node == node && mine.group == w.Group {
			n--
		}
		return n
	}
	none := &NoneError{Path: w.Path, Node: w.Node}
	best, found := candidate{}, false
	byValue := map[string]int{}
	if w.Spread != "" {
		for _, n := range f.nodes {
			if value, ok := n.Labels[w.Spread]; ok {
				byValue[value] += in(n.Name)
			}
		}
	}
	for _, n := range f.nodes {
		if w.Node != "" && w.Node != n.Name {
			continue
		}
		others := f.on[n.Name]
		if mine.node == n.Name {
			others--
		}
		if why := refuses(n, w, others, in(n.Name)); why != "" {
			none.Reasons = append(none.Reasons, Reason{Node: n.Name, Why: why})
			continue
		}
		if n.Name == mine.node {
			return n.Name, nil
		}
		c := candidate{name: n.Name, group: in(n.Name), others: others, capacity: n.Capacity}
		if w.Spread != "" {
			c.spread = byValue[n.Labels[w.Spread]]
		}
		if !found || c.less(best) {
			best, found = c, true
		}
	}
	if !found {
		return "", none
	}
	return best.name, nil
}

// refuses returns why a node does not take an agent, beside what it has; "" if it does.
func refuses(n Node, w Want, others, ofGroup int) string {
	if why := bars(n, w); why != "" {
		return why
	}
	switch {
	case w.MaxPerNode > 0 && ofGroup >= w.MaxPerNode:
		return fmt.Sprintf("has %d of max_per_node = %d", ofGroup, w.MaxPerNode)
	case n.Capacity > 0 && others >= n.Capacity:
		return fmt.Sprintf("is full, with %d of %d agents", others, n.Capacity)
	}
	return ""
}

// bars returns why a node takes an agent under no circumstances; "" if it may.
func bars(n Node, w Want) string {
	switch {
	case n.State == Lost:
		return "is lost"
	case n.State == Draining:
		return "is being drained"
	}
	for _, label := range slices.Sorted(maps.Keys(w.Labels)) {
		switch have, ok := n.Labels[label]; {
		case !ok:
			return fmt.Sprintf("has no label %s", label)
		case have != w.Labels[label]:
			return fmt.Sprintf("has the label %s = %q, not %q", label, have, w.Labels[label])
		}
	}
	if _, ok := n.Labels[w.Spread]; w.Spread != "" && !ok {
		return fmt.Sprintf("has no label %s, by which the agents are spread", w.Spread)
	}
	return ""
}

// candidate is a node that takes the agent.
type candidate struct {
	name             string
	spread           int // of the group with the same value of the label
	group            int // of the group on the node
	others, capacity int
}

// less reports whether a node is better than another one.
func (c candidate) less(other candidate) bool {
	// The share of what a node takes that is used; nodes without a limit are compared by number.
	share := cmp.Compare(c.others, other.others)
	if c.capacity > 0 && other.capacity > 0 {
		share = cmp.Compare(c.others*other.capacity, other.others*c.capacity)
	}
	return cmp.Or(cmp.Compare(c.spread, other.spread), cmp.Compare(c.group, other.group), share,
		cmp.Compare(c.name, other.name)) < 0
}

// Move returns where an agent has to move, and why it cannot stay where it is; to is "" if it can stay, or if no node
// takes it. It stays on a node that is full. What a lost node has had is not moved: it ends there.
func (f *Fleet) Move(w Want) (to, why string) {
	mine := f.places[w.Path]
	i, ok := slices.BinarySearchFunc(f.nodes, mine.node, func(n Node, name string) int {
		return cmp.Compare(n.Name, name)
	})
	if !ok || f.nodes[i].State == Lost {
		return "", ""
	}
	if w.Node != "" && w.Node != mine.node {
		why = "it may run only there"
	} else if why = bars(f.nodes[i], w); why != "" {
		why = mine.node + " " + why
	}
	if why == "" {
		return "", ""
	}
	if to, _ = f.Choose(w); to == "" {
		return "", ""
	}
	return to, why
}

// PlacedOn returns the paths of the agents that have their place on a node, sorted.
func (f *Fleet) PlacedOn(node string) []string {
	var paths []string
	for path, p := range f.places {
		if p.node == node {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// NoneError means that no node takes an agent.
type NoneError struct {
	Path    string
	Node    string   // the only one on which it may run; any if empty
	Reasons []Reason // of each node on which it may run, by name
}

// Reason says why a node does not take an agent.
type Reason struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

const maxReasons = 5

func (e *NoneError) Error() string {
	switch {
	case len(e.Reasons) == 0 && e.Node != "":
		return fmt.Sprintf("no node takes %s: there is no node %s", e.Path, e.Node)
	case len(e.Reasons) == 0:
		return "no node takes " + e.Path + ": there are none"
	}
	var all []string
	for i, r := range e.Reasons {
		if i == maxReasons {
			all = append(all, fmt.Sprintf("and %d more", len(e.Reasons)-i))
			break
		}
		all = append(all, r.Node+" "+r.Why)
	}
	return "no node takes " + e.Path + ": " + strings.Join(all, "; ")
}
