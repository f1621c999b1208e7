package top

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/usage"
)

// topOrder is the order of the rows: the tree, or agents sorted by a column.
type topOrder int

const (
	byTree topOrder = iota
	byName
	byState
	byCPU
	byMemory
	byStarts
	byUptime
	topOrders // the number of orders
)

// column returns the header of the sort column.
func (o topOrder) column() string {
	return [...]string{"", "NAME", "STATE", "CPU", "MEM", "STARTS", "UPTIME"}[o]
}

// arrange returns the nodes that match a filter, in an order. A sorted list has only agents.
func arrange(nodes []status.Node, used map[string]usage.Resources, order topOrder, filter string) []status.Node {
	filter = strings.ToLower(filter)
	rows := slices.DeleteFunc(slices.Clone(nodes), func(n status.Node) bool {
		return order != byTree && n.Kind != "agent" ||
			!strings.Contains(strings.ToLower(n.Path), filter) && !strings.Contains(n.Shown(), filter)
	})
	compare := func(a, b status.Node) int {
		switch order {
		case byName:
			return strings.Compare(a.Path, b.Path)
		case byState:
			return cmp.Or(cmp.Compare(urgency(a), urgency(b)), strings.Compare(a.Shown(), b.Shown()))
		case byCPU:
			return cmp.Compare(used[b.Path].CPU, used[a.Path].CPU)
		case byMemory:
			return cmp.Compare(used[b.Path].Memory, used[a.Path].Memory)
		case byStarts:
			return cmp.Or(cmp.Compare(b.InWindow, a.InWindow), cmp.Compare(b.Restarts, a.Restarts))
		case byUptime: // the latest start first, agents that do not run last
			uptime := func(n status.Node) float64 { return cmp.Or(max(0, n.Uptime), math.Inf(1)) }
			return cmp.Compare(uptime(a), uptime(b))
		}
		return 0
	}
	slices.SortStableFunc(rows, compare)
	return rows
}

// urgency ranks states: low for those likely to need a person, high for running.
func urgency(n status.Node) int {
	switch n.Shown() {
	case "quarantined", status.ShownGivenUp, "paused", status.ShownCrashLoop:
		return 0
	case status.ShownNeedsInput:
		return 1
	case "restarting":
		return 2
	case status.StateStarting, status.StateStopping, status.StateWaiting, status.ShownDraining:
		return 3
	case status.StateRunning:
		return 5
	}
	return 4
}

// initialSelection returns the node to select first: one that needs attention, or else the first
// agent. It is never the root, where every key acts on all agents.
func initialSelection(nodes []status.Node, attention []status.Attention) string {
	if len(nodes) == 0 {
		return ""
	}
	below := nodes[1:]
	for _, a := range attention {
		if slices.ContainsFunc(below, func(n status.Node) bool { return n.Path == a.Path }) {
			return a.Path
		}
	}
	choice := ""
	best := 0
	for _, n := range below {
		if u := urgency(n); n.Kind == "agent" && (choice == "" || u < best && u <= 1) {
			choice, best = n.Path, u
		}
	}
	if choice == "" && len(below) > 0 {
		choice = below[0].Path
	}
	return choice
}

// relativePaths returns the paths of nodes without the project name.
func relativePaths(rows []status.Node) []string {
	names := make([]string, len(rows))
	for i, n := range rows {
		_, name, below := strings.Cut(n.Path, "/")
		if !below {
			name = n.Path
		}
		if n.Kind != "agent" {
			name += "/"
		}
		names[i] = plaintext.Line(name)
	}
	return names
}
