package show

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// NodeState returns the state of a node of the fleet, with whether it is the controller, and has other files than that.
func NodeState(s nodes.State, controller, otherFiles bool) string {
	text := string(s)
	if controller {
		text += ", controller"
	}
	if otherFiles {
		text += ", other files"
	}
	return text
}

// PaintNode paints a text about a node of the fleet.
func PaintNode(p terminal.Paint, s nodes.State, text string) string {
	switch s {
	case nodes.Ready:
		return p.Green(text)
	case nodes.Draining:
		return p.Yellow(text)
	case nodes.Lost:
		return p.Red(text)
	}
	return p.Dim(text)
}

// AgentsOn returns the number of agents on a node, of those that it takes; 0 is no limit.
func AgentsOn(n, capacity int) string {
	text := strconv.Itoa(n)
	if capacity > 0 {
		text += " of " + strconv.Itoa(capacity)
	}
	return text
}

// Labels returns the labels of a node in a line.
func Labels(labels map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, name+"="+labels[name])
	}
	return strings.Join(all, " ")
}

// maxFleetNodes bounds the nodes that FleetNodes lists.
const maxFleetNodes = 10

// FleetNodes describes the nodes of a fleet: how many there are in which state, and each in a line. Of many nodes it
// lists those first that are not ready.
func FleetNodes(all []nodes.Summary, p terminal.Paint) (lines []string) {
	if len(all) == 0 {
		return nil
	}
	count := make(map[nodes.State]int)
	for _, n := range all {
		count[n.State]++
	}
	var counts []string
	for _, s := range slices.Sorted(maps.Keys(count)) {
		counts = append(counts, PaintNode(p, s, fmt.Sprintf("%d %s", count[s], s)))
	}
	lines = append(lines, fmt.Sprintf("%d: %s", len(all), strings.Join(counts, ", ")))
	shown := all
	if len(all) > maxFleetNodes {
		shown = slices.Clone(all)
		slices.SortStableFunc(shown, func(a, b nodes.Summary) int { return rank(a) - rank(b) })
		shown = shown[:maxFleetNodes]
	}
	for _, n := range shown {
		text := n.Name + " " + PaintNode(p, n.State, NodeState(n.State, n.Controller, n.OtherFiles))
		switch {
		case n.Capacity > 0:
			text += ", " + AgentsOn(n.Agents, n.Capacity) + " agents"
		case n.Agents > 0:
			text += ", " + plaintext.Plural(n.Agents, "agent")
		}
		if len(n.Labels) > 0 {
			text += ", " + plaintext.Line(Labels(n.Labels))
		}
		lines = append(lines, text)
	}
	if more := len(all) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: coppice node ls", more))
	}
	return lines
}

// rank orders nodes: those that are not ready come first, and then the controller.
func rank(n nodes.Summary) int {
	switch {
	case n.State != nodes.Ready:
		return 0
	case n.Controller:
		return 1
	}
	return 2
}
