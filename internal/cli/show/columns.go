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

// Column is one of a table of nodes.
type Column struct {
	Name string
	Text func(i int, n status.Node, now time.Time) string
}

// TreeColumns are the columns that each picture of a tree begins with.
func TreeColumns(nodes []status.Node) []Column {
	names := Branches(nodes)
	return []Column{
		{"NAME", func(i int, _ status.Node, _ time.Time) string { return names[i] }},
		StateColumn(), IncarnationColumn(), StartsColumn(),
	}
}

func IncarnationColumn() Column {
	return Column{"INC", func(_ int, n status.Node, _ time.Time) string {
		if n.Incarnation == 0 {
			return "-"
		}
		return fmt.Sprint(n.Incarnation)
	}}
}

// StartsColumn is how much of its limit a node has used up. The header names what most limits count.
func StartsColumn() Column {
	return Column{"STARTS", func(_ int, n status.Node, _ time.Time) string {
		return proc.Plain(strings.NewReplacer(" starts", "", " restarts in a row", " in a row").Replace(n.Starts()))
	}}
}

func StateColumn() Column {
	return Column{"STATE", func(_ int, n status.Node, _ time.Time) string { return proc.Plain(State(n)) }}
}

func UptimeColumn() Column {
	return Column{"UPTIME", func(_ int, n status.Node, _ time.Time) string { return uptime(n) }}
}

func NextColumn() Column {
	return Column{"NEXT", func(_ int, n status.Node, now time.Time) string { return next(n, now) }}
}

func NextAtColumn() Column {
	return Column{"NEXT", func(_ int, n status.Node, now time.Time) string {
		if at := nextTry(n, now); at != "" {
			return at
		}
		return "-"
	}}
}

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

// StatusColumn is what agents say of themselves, and how pools are, where there is such.
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
