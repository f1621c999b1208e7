// Package show turns nodes of the tree, their states and events into text: the columns of ps, tree
// and top, and the lines of events.
package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

// Column describes a column of a table of nodes.
type Column struct {
	Name string
	Text func(i int, n status.Node, now time.Time) string
}

// TreeColumns returns the columns that each picture of a tree begins with.
func TreeColumns(nodes []status.Node) []Column {
	names := Branches(nodes)
	return []Column{
		{"NAME", func(i int, _ status.Node, _ time.Time) string { return names[i] }},
		StateColumn(), IncarnationColumn(), StartsColumn(),
	}
}

// IncarnationColumn shows the number of the incarnation.
func IncarnationColumn() Column {
	return Column{"INC", func(_ int, n status.Node, _ time.Time) string {
		if n.Incarnation == 0 {
			return "-"
		}
		return fmt.Sprint(n.Incarnation)
	}}
}

// StartsColumn shows how much of its limit a node has used up. The header names what most limits count.
func StartsColumn() Column {
	return Column{"STARTS", func(_ int, n status.Node, _ time.Time) string {
		return proc.Plain(strings.NewReplacer(" starts", "", " restarts in a row", " in a row").Replace(n.Starts()))
	}}
}

// StateColumn shows the state.
func StateColumn() Column {
	return Column{"STATE", func(_ int, n status.Node, _ time.Time) string { return proc.Plain(State(n)) }}
}

// UptimeColumn shows for how long a node has been running.
func UptimeColumn() Column {
	return Column{"UPTIME", func(_ int, n status.Node, _ time.Time) string { return uptime(n) }}
}

// NextColumn shows when a node starts again, or why it does not.
func NextColumn() Column {
	return Column{"NEXT", func(_ int, n status.Node, now time.Time) string { return next(n, now) }}
}

// NextAtColumn shows when a node starts again.
func NextAtColumn() Column {
	return Column{"NEXT", func(_ int, n status.Node, now time.Time) string {
		if at := nextTry(n, now); at != "" {
			return at
		}
		return "-"
	}}
}

// ReasonColumn shows why a node is in its state.
func ReasonColumn() Column {
	return Column{"REASON", func(_ int, n status.Node, _ time.Time) string {
		if State(n) == NeedsInput {
			return asks(n)
		}
		if n.Kind == "agent" && State(n) == StateRunning {
			return "" // why it was started, at some time
		}
		return why(n)
	}}
}

// StatusColumn shows what agents report of themselves, and the size of pools. It is left out if
// all cells would be empty.
func StatusColumn(nodes []status.Node) []Column {
	if !slices.ContainsFunc(nodes, func(n status.Node) bool { return n.StatusText != "" || n.Pool != nil }) {
		return nil
	}
	return []Column{{"STATUS", func(_ int, n status.Node, _ time.Time) string {
		if n.Pool != nil {
			return PoolText(*n.Pool)
		}
		return proc.Plain(n.StatusText)
	}}}
}
