package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

// column is one of a table of nodes.
type column struct {
	name string
	text func(i int, n status.Node, now time.Time) string
}

// treeColumns are the columns that each picture of a tree begins with.
func treeColumns(nodes []status.Node) []column {
	names := branches(nodes)
	return []column{
		{"NAME", func(i int, _ status.Node, _ time.Time) string { return names[i] }},
		stateColumn(), incarnationColumn(), startsColumn(),
	}
}

func incarnationColumn() column {
	return column{"INC", func(_ int, n status.Node, _ time.Time) string {
		if n.Incarnation == 0 {
			return "-"
		}
		return fmt.Sprint(n.Incarnation)
	}}
}

// startsColumn is how much of its limit a node has used up. The header names what most limits count.
func startsColumn() column {
	return column{"STARTS", func(_ int, n status.Node, _ time.Time) string {
		return proc.Plain(strings.NewReplacer(" starts", "", " restarts in a row", " in a row").Replace(n.Starts()))
	}}
}

func stateColumn() column {
	return column{"STATE", func(_ int, n status.Node, _ time.Time) string { return proc.Plain(shownState(n)) }}
}

func uptimeColumn() column {
	return column{"UPTIME", func(_ int, n status.Node, _ time.Time) string { return uptime(n) }}
}

func nextColumn() column {
	return column{"NEXT", func(_ int, n status.Node, now time.Time) string { return next(n, now) }}
}

func nextAtColumn() column {
	return column{"NEXT", func(_ int, n status.Node, now time.Time) string {
		if at := nextTry(n, now); at != "" {
			return at
		}
		return "-"
	}}
}

func reasonColumn() column {
	return column{"REASON", func(_ int, n status.Node, _ time.Time) string {
		if shownState(n) == needsInput {
			return asks(n)
		}
		if n.Kind == "agent" && shownState(n) == stateRunning {
			return "" // why it was started, at some time
		}
		return why(n)
	}}
}

// statusColumn is what agents say of themselves, and how pools are, where there is such.
func statusColumn(nodes []status.Node) []column {
	if !slices.ContainsFunc(nodes, func(n status.Node) bool { return n.StatusText != "" || n.Pool != nil }) {
		return nil
	}
	return []column{{"STATUS", func(_ int, n status.Node, _ time.Time) string {
		if n.Pool != nil {
			return poolText(*n.Pool)
		}
		return proc.Plain(n.StatusText)
	}}}
}
