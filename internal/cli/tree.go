package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/supervisor"
)

func newTree(s *streams) *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tree [PATH]",
		Short: "Show the tree of supervisors and agents",
		Long:  `Show the tree of supervisors and agents as it is now, or the part of it below PATH.`,
		Args:  atMostOnePath,
		RunE: func(_ *cobra.Command, args []string) error {
			return r.look(s, func(ctx context.Context, c *api.Client) error {
				nodes, err := status.List.Call(ctx, c, status.ListRequest{Path: strings.Join(args, "")})
				if err != nil {
					return err
				}
				if asJSON {
					return s.printJSON(nodes)
				}
				width, tty := terminal.Size(s.out)
				columns := append(treeColumns(nodes), uptimeColumn(), nextAtColumn(), reasonColumn())
				columns = append(columns, statusColumn(nodes)...)
				return s.printLines(nodeTable(nodes, narrow(nodes, columns, width), 0, width, newPaint(tty)))
			})
		},
		ValidArgsFunction: r.completePath(false),
	}
	r.flags(cmd)
	jsonFlag(cmd, &asJSON, "an array of objects, as ps does")
	return cmd
}

func atMostOnePath(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return onePath(cmd, args)
}

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

// asks is what an agent waits for.
func asks(n status.Node) string {
	text := n.NeedsInput.ID + ": " + n.NeedsInput.Text
	if more := n.NeedsInput.Open - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return cell(text)
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

// branches draws the names of nodes, which come parents first, as a tree
// below the first of them.
func branches(nodes []status.Node) []string {
	names := make([]string, len(nodes))
	if len(nodes) == 0 {
		return names
	}
	base := strings.Count(nodes[0].Path, "/")
	// From the end: a node is the last of its siblings if none was seen since
	// the one above it.
	last := make([]bool, len(nodes))
	seen := map[int]bool{} // by depth
	for i := len(nodes) - 1; i >= 0; i-- {
		depth := strings.Count(nodes[i].Path, "/") - base
		last[i] = !seen[depth]
		seen[depth] = true
		delete(seen, depth+1)
	}
	var above []bool // by depth: whether that branch is the last of its siblings
	for i, n := range nodes {
		depth := max(0, strings.Count(n.Path, "/")-base)
		above = append(above[:min(max(0, depth-1), len(above))], last[i])
		var b strings.Builder
		if depth > 0 {
			for _, ended := range above[:len(above)-1] {
				b.WriteString(map[bool]string{false: "│  ", true: "   "}[ended])
			}
			b.WriteString(map[bool]string{false: "├─ ", true: "└─ "}[last[i]])
		} else {
			above = above[:0]
		}
		name := n.Path[strings.LastIndex(n.Path, "/")+1:]
		if i == 0 {
			name = n.Path
		}
		b.WriteString(proc.Plain(name))
		if n.Pool != nil {
			b.WriteString(" (pool)")
		} else if n.Strategy != "" {
			fmt.Fprintf(&b, " (%s)", proc.Plain(n.Strategy))
		}
		names[i] = b.String()
	}
	return names
}

func uptime(n status.Node) string {
	switch n.State {
	case stateRunning, stateStopping, stateDegraded:
		return timespan.Short(time.Duration(n.Uptime * float64(time.Second)).Truncate(time.Second))
	}
	return "-"
}

// next says when a node starts again, or why it does not.
func next(n status.Node, now time.Time) string {
	switch shownState(n) {
	case needsInput:
		return asks(n)
	case stateRunning, stateStarting:
		return ""
	}
	if at := nextTry(n, now); at != "" {
		return withExit(n, "in "+at)
	}
	return why(n)
}

// why says why a node is in its state.
func why(n status.Node) string {
	if n.Kind == "agent" && n.State == stateRunning && n.Loop != "" {
		return "its last exit: " + proc.Plain(exitText(n))
	}
	return withExit(n, n.Reason)
}

// exitText says how a node ended last.
func exitText(n status.Node) string {
	switch {
	case n.ExitKind != supervisor.Normal.String():
		return n.LastExit
	case n.ExitError == "":
		return "completed"
	}
	return "completed: " + n.ExitError
}

// nextTry is the time until a node starts again, "" if it will not.
func nextTry(n status.Node, now time.Time) string {
	if n.NextAt == nil || n.NextAt.IsZero() {
		return ""
	}
	return timespan.Short(max(0, n.NextAt.Sub(now)).Round(100 * time.Millisecond))
}

// withExit adds how a node that does not run has ended.
func withExit(n status.Node, text string) string {
	if !n.Failed || n.State == stateRunning || n.State == stateStarting || n.State == stateDegraded {
		return proc.Plain(text)
	}
	return strings.TrimSpace(proc.Plain(text + " (" + n.LastExit + ")"))
}

// nodeTable is a table of nodes, a line each after the header. At most so many
// nodes are shown if most is positive; a last line says how many are not.
func nodeTable(nodes []status.Node, columns []column, most, width int, p paint) []string {
	now := time.Now()
	rows, states := make([][]string, len(nodes)), make([]string, len(nodes))
	for i, n := range nodes {
		states[i] = shownState(n)
		for _, c := range columns {
			rows[i] = append(rows[i], strings.ReplaceAll(c.text(i, n, now), "\t", " "))
		}
	}
	hidden := 0
	if most > 0 {
		rows, states, hidden = fit(rows, states, most)
	}
	header := make([]string, len(columns))
	for i, c := range columns {
		header[i] = c.name
	}
	lines := table(header, rows, width, func(row, column int, text string) string {
		switch {
		case row == 0:
			return p.bold(text)
		case strings.TrimSuffix(header[column], sortMark) == "STATE":
			return p.state(states[row-1], text)
		case header[column] == "NEXT", header[column] == "REASON":
			return p.dim(text)
		}
		return text
	})
	if hidden > 0 {
		lines = append(lines, p.dim(fmt.Sprintf("… and %d more", hidden)))
	}
	return lines
}

// fit chooses at most n rows and says how many it left out. Those that do not
// simply run come first: they are why somebody looks. The order stays.
func fit(rows [][]string, states []string, n int) ([][]string, []string, int) {
	hidden := len(rows) - n
	if hidden <= 0 {
		return rows, states, 0
	}
	n-- // for the line that says so
	troubled := 0
	for _, s := range states[1:] {
		if s != stateRunning {
			troubled++
		}
	}
	sound := max(0, n-1-troubled) // how many that run there is room for
	keptRows, keptStates := rows[:1:1], states[:1:1]
	for i, s := range states[1:] {
		if len(keptRows) == n {
			break
		}
		if s == stateRunning {
			if sound == 0 {
				continue
			}
			sound--
		}
		keptRows, keptStates = append(keptRows, rows[i+1]), append(keptStates, s)
	}
	return keptRows, keptStates, len(rows) - len(keptRows)
}

// table aligns rows under a header; cell paints a cell of a row (0 is the
// header). No line is wider than width, if that is positive.
func table(header []string, rows [][]string, width int, cell func(row, column int, text string) string) []string {
	widths := make([]int, len(header))
	all := append([][]string{header}, rows...)
	for _, row := range all {
		for i, text := range row {
			widths[i] = max(widths[i], ansi.StringWidth(text))
		}
	}
	lines := make([]string, len(all))
	for r, row := range all {
		var b strings.Builder
		for i, text := range row {
			pad := 2 + widths[i] - ansi.StringWidth(text)
			b.WriteString(cell(r, i, text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", pad))
			}
		}
		lines[r] = strings.TrimRight(b.String(), " ")
		if width > 0 {
			lines[r] = ansi.Truncate(lines[r], width, "…")
		}
	}
	return lines
}
