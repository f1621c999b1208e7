// Package show formats nodes, states and events as text: the columns of ps, tree and top, and the
// lines of events.
package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
)

// Column is a column of a table of nodes.
type Column struct {
	Name string
	Text func(i int, n status.Node, now time.Time) string
}

// NodeColumn returns a column whose cells depend on the node alone.
func NodeColumn(name string, text func(status.Node) string) Column {
	return Column{name, func(_ int, n status.Node, _ time.Time) string { return text(n) }}
}

// TreeColumns returns the columns that every tree begins with; names are the cells of the first.
func TreeColumns(names []string) []Column {
	return []Column{
		{"NAME", func(i int, _ status.Node, _ time.Time) string { return names[i] }},
		StateColumn(), IncarnationColumn(), StartsColumn(),
	}
}

// IncarnationColumn shows the number of the incarnation.
func IncarnationColumn() Column {
	return NodeColumn("INC", func(n status.Node) string {
		if n.Incarnation == 0 {
			return "-"
		}
		return fmt.Sprint(n.Incarnation)
	})
}

// StartsColumn shows how much of its limit a node has used. The header names what most limits
// count.
func StartsColumn() Column {
	return NodeColumn("STARTS", func(n status.Node) string {
		return plaintext.Line(strings.NewReplacer(" starts", "", " restarts in a row", " in a row").Replace(n.Starts()))
	})
}

// StateColumn shows the state.
func StateColumn() Column {
	return NodeColumn("STATE", func(n status.Node) string { return plaintext.Line(n.Shown()) })
}

// UptimeColumn shows how long a node has been running.
func UptimeColumn() Column { return NodeColumn("UPTIME", uptime) }

// NextColumn shows when a node starts again, or why it does not.
func NextColumn() Column {
	return Column{"NEXT", func(_ int, n status.Node, now time.Time) string { return nextText(n, now) }}
}

// NextAtColumn shows when a node starts again.
func NextAtColumn() Column {
	return Column{"NEXT", func(_ int, n status.Node, now time.Time) string {
		return cmp.Or(untilNextStart(n, now), "-")
	}}
}

// ReasonColumn shows why a node is in its state.
func ReasonColumn() Column {
	return NodeColumn("REASON", func(n status.Node) string {
		if n.Shown() == status.ShownNeedsInput {
			return questionText(n)
		}
		if n.Kind == "agent" && n.Shown() == status.StateRunning {
			return n.Tasks // its reason is only why it was started
		}
		return cmp.Or(reasonText(n), n.Tasks)
	})
}

// HostColumn shows the nodes of a fleet on which agents run, or ran last. It is left out if all are on the same one.
func HostColumn(nodes []status.Node) []Column {
	hosts := make(map[string]bool)
	for _, n := range nodes {
		if n.Kind == "agent" {
			hosts[n.Host] = true
		}
	}
	if len(hosts) < 2 {
		return nil
	}
	return []Column{NodeColumn("NODE", func(n status.Node) string {
		if n.Kind != "agent" {
			return "-"
		}
		return plaintext.Line(n.Host)
	})}
}

// StatusColumn shows the status texts of agents and the sizes of pools. It is left out if all cells
// would be empty.
func StatusColumn(nodes []status.Node) []Column {
	if !slices.ContainsFunc(nodes, func(n status.Node) bool { return n.StatusText != "" || n.Pool != nil }) {
		return nil
	}
	return []Column{NodeColumn("STATUS", func(n status.Node) string {
		if n.Pool != nil {
			return PoolText(*n.Pool)
		}
		return plaintext.Line(n.StatusText)
	})}
}
