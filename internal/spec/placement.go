package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/nodename"
)

// Placement says on which nodes of a fleet an agent may run; zero is on any. It has no effect on a machine that is not
// a node. Spread and MaxPerNode count the instances of a pool, or the agents of a supervisor that are in no pool.
type Placement struct {
	_ struct{} `doc:"On which nodes of a fleet of several machines an agent, or the instances of a pool, may run. Not there if on any."`

	Node   string            `json:"node,omitempty" doc:"The only node; not there if it may be another one."`
	Labels map[string]string `json:"labels,omitempty" doc:"The labels that a node must have."`
	// Spread is a label. If it is empty, agents are spread evenly over nodes.
	Spread     string `json:"spread,omitempty" doc:"The label by whose values the instances of a pool, or else the agents of a supervisor, are spread evenly; not there if they are spread over nodes."`
	MaxPerNode int    `json:"max_per_node,omitempty" minimum:"0" doc:"How many of them a node takes; not there if there is no limit."`
}

// MaxPerNode is the largest Placement.MaxPerNode.
const MaxPerNode = 100_000

// IsZero reports whether an agent may run on any node.
func (p Placement) IsZero() bool {
	return p.Node == "" && len(p.Labels) == 0 && p.Spread == "" && p.MaxPerNode == 0
}

// String returns a placement as text for people; "" if it is zero.
func (p Placement) String() string {
	var parts []string
	if p.Node != "" {
		parts = append(parts, "only on node "+p.Node)
	}
	if len(p.Labels) > 0 {
		labels := make([]string, 0, len(p.Labels))
		for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
			labels = append(labels, name+"="+p.Labels[name])
		}
		parts = append(parts, "only on nodes with "+strings.Join(labels, ", "))
	}
	if p.Spread != "" {
		parts = append(parts, "spread evenly by "+p.Spread)
	}
	if p.MaxPerNode != 0 {
		parts = append(parts, fmt.Sprintf("at most %d on each node", p.MaxPerNode))
	}
	return strings.Join(parts, "; ")
}

// checkPlacement checks where an agent may run. Nothing is known of the nodes that there are.
func (c checker) checkPlacement(p *Placement) {
	if len(p.Labels) == 0 {
		p.Labels = nil
	}
	c.checkLabels(p.Labels)
	if p.MaxPerNode < 0 || p.MaxPerNode > MaxPerNode {
		c.problem([]string{"max_per_node"}, "", "max_per_node is %d, expected 1 to %d", p.MaxPerNode, MaxPerNode)
	}
	c.checkSpread(*p)
	if p.Node == "" {
		return
	}
	if err := nodename.Check(p.Node); err != nil {
		c.problem([]string{"node"}, "", "%v", err)
	}
	for _, other := range []struct {
		key string
		set bool
	}{{"labels", p.Labels != nil}, {"spread", p.Spread != ""}, {"max_per_node", p.MaxPerNode != 0}} {
		if other.set {
			c.problem([]string{other.key}, "remove one of the two",
				"%s with node, expected one of the two: node leaves no choice", other.key)
		}
	}
}

func (c checker) checkLabels(labels map[string]string) {
	if len(labels) > nodename.MaxLabels {
		c.problem([]string{"labels"}, "", "%d labels, expected at most %d, as many as a node has", len(labels),
			nodename.MaxLabels)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if err := nodename.CheckLabel(name, labels[name]); err != nil {
			c.problem([]string{"labels", name}, "", "%v", err)
		}
	}
}

func (c checker) checkSpread(p Placement) {
	if p.Spread == "" {
		return
	}
	at := []string{"spread"}
	if err := nodename.CheckLabelName(p.Spread); err != nil {
		c.problem(at, "", "spread: %v", err)
		return
	}
	if p.Spread == "node" {
		c.problem(at, "remove it: without spread, agents are spread over nodes",
			`spread is "node", expected the name of a label`)
	} else if value, ok := p.Labels[p.Spread]; ok {
		c.problem(at, "remove one of the two", "spread by the label %s, which is %q on all nodes with these labels, "+
			"expected another one", p.Spread, value)
	}
}
