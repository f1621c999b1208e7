package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// treeHeader names the columns of treeRows.
var treeHeader = []string{"NAME", "STATE", "INC", "RESTARTS", "UPTIME", "NEXT"}

// treeRows draws the tree as rows of columns. States come back beside the
// rows, for painting.
func treeRows(root *spec.Node, all []daemon.Status, now time.Time) (rows [][]string, states []supervisor.State) {
	rows = append(rows, []string{fmt.Sprintf("%s (%v)", proc.Plain(root.Name), root.Strategy), "", "", "", "", ""})
	states = append(states, supervisor.Running)
	lasts := []bool{} // by depth: the branch is the last of its siblings
	for _, st := range all {
		lasts = append(lasts[:st.Depth-1], st.Last)
		var b strings.Builder
		for _, last := range lasts[:st.Depth-1] {
			if last {
				b.WriteString("   ")
			} else {
				b.WriteString("│  ")
			}
		}
		if st.Last {
			b.WriteString("└─ ")
		} else {
			b.WriteString("├─ ")
		}
		b.WriteString(proc.Plain(st.ID))
		if st.Node != nil {
			fmt.Fprintf(&b, " (%v)", st.Node.Strategy)
		}
		rows = append(rows, []string{b.String(), st.State.String(), count(st.Incarnation), count(uint64(st.Restarts)), uptime(st), next(st, now)})
		states = append(states, st.State)
	}
	return rows, states
}

func count(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func uptime(st daemon.Status) string {
	if !(st.State == supervisor.Running || st.State == supervisor.Stopping) {
		return "-"
	}
	return short(st.Uptime.Truncate(time.Second))
}

// next says when a child starts again, or why it does not.
func next(st daemon.Status, now time.Time) string {
	why := st.Reason.String()
	if st.Reason == supervisor.ReasonShutdown { // of everything, as is plain to see
		why = ""
	}
	if !st.NextAt.IsZero() {
		why = "in " + short(max(0, st.NextAt.Sub(now)).Round(100*time.Millisecond))
	}
	switch st.State {
	case supervisor.Running, supervisor.Starting:
		return ""
	}
	if k := st.LastExit.Kind; k != supervisor.NoExit && k != supervisor.ShutDown {
		return strings.TrimSpace(proc.Plain(why + " (" + exitText(st.LastExit) + ")"))
	}
	return why
}

// fit chooses at most n rows and says how many it left out. Those that do not
// simply run come first: they are why somebody looks. The order stays.
func fit(rows [][]string, states []supervisor.State, n int) ([][]string, []supervisor.State, int) {
	hidden := len(rows) - n
	if hidden <= 0 {
		return rows, states, 0
	}
	n-- // for the line that says so
	troubled := 0
	for _, s := range states[1:] {
		if s != supervisor.Running {
			troubled++
		}
	}
	sound := max(0, n-1-troubled) // how many that run there is room for
	keptRows, keptStates := rows[:1:1], states[:1:1]
	for i, s := range states[1:] {
		if len(keptRows) == n {
			break
		}
		if s == supervisor.Running {
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
