package top

import (
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/internal/usage"
)

// visible returns how many rows of the tree fit. The output below gets at least a third of the
// screen, and other panes half of it.
func (m *topModel) visible() int {
	above := m.height * 2 / 3
	if m.pane != logPane {
		above = m.height / 2
	}
	return max(1, min(len(m.rows), above-3))
}

func (m *topModel) listLines() []string {
	p := m.paint
	if m.table == nil {
		m.table, m.counts = m.layOut(m.canvas), m.countText(p)
	}
	tree, rows := m.table, m.visible()
	m.above = max(0, min(m.above, m.at, len(tree)-1-rows), m.at-rows+1) // keep the selected row visible
	lines := []string{m.headline(), "  " + tree[0]}
	for i, line := range tree[1:] {
		switch {
		case i < m.above || i >= m.above+rows:
		case i == m.at:
			lines = append(lines, p.Bold("> ")+line)
		default:
			lines = append(lines, "  "+line)
		}
	}
	if len(m.rows) == 0 {
		lines = append(lines, p.Dim("  nothing matches; Esc clears the filter"))
	}
	lines = append(lines, m.keyLine(), m.paneTitle())
	return append(lines, m.belowTree(m.height-len(lines))...)
}

// placeholder returns the text shown when there is no output.
func (l *list) placeholder() string {
	switch n, ok := l.node(); {
	case !ok:
		return ""
	case n.Kind != "agent":
		return "select an agent to see its output"
	}
	return "no output yet"
}

// layOut returns the header and the rows, leaving space for the selection mark.
func (l *list) layOut(c canvas) []string {
	nodes := l.rows
	names := relativePaths(nodes)
	if l.isTree() {
		names = show.Branches(nodes)
		l.countHidden(names)
	}
	columns := append(show.TreeColumns(names),
		show.NodeColumn("CPU", func(n status.Node) string { return l.use(n, usage.Resources.Processor) }),
		show.NodeColumn("MEM", func(n status.Node) string { return l.use(n, usage.Resources.Bytes) }),
		show.UptimeColumn(), show.NextColumn())
	columns = append(columns, show.StatusColumn(nodes)...)
	width := max(0, c.width-2)
	columns = show.FitColumns(nodes, columns, width)
	for i, c := range columns {
		if c.Name == l.order.column() {
			columns[i].Name += show.SortMark
		}
	}
	return show.NodeTable(nodes, columns, 0, width, c.paint)
}

// headline returns the counts, or why they are unknown.
func (m *topModel) headline() string {
	if m.err != nil {
		return m.paint.Red(plaintext.Line(oneLine(m.err)))
	}
	return m.counts
}

// countText counts what needs a person, and then all other agents by state.
func (l *list) countText(p terminal.Paint) string {
	parts := []string{p.Bold(plaintext.Line(l.status.Project))}
	if needs := l.needs(p); len(needs) > 0 {
		parts = append(parts, "needs you: "+strings.Join(needs, ", "))
	}
	listed := map[string]bool{}
	for _, a := range l.status.Attention {
		listed[a.Path] = a.State != status.NeedsAnswer
	}
	others := slices.DeleteFunc(slices.Clone(l.nodes), func(n status.Node) bool { return listed[n.Path] })
	parts = append(parts, show.StateCounts(status.Summarize(others), p)...)
	up := time.Duration(l.status.Controller.Uptime * float64(time.Second)).Truncate(time.Second)
	return strings.Join(append(parts, "up "+timespan.Short(up)), "  ")
}

// needs counts what needs a person, by state.
func (l *list) needs(p terminal.Paint) (needs []string) {
	st := l.status
	add := func(n int, what string) {
		if n > 0 {
			needs = append(needs, show.PaintState(p, status.ShownNeedsInput, plaintext.Plural(n, what)))
		}
	}
	if st.Suspended != "" {
		needs = append(needs, show.PaintState(p, status.StateSuspended, "project suspended"))
	}
	if st.Store.Error != "" {
		needs = append(needs, p.Red("store takes no writes"))
	}
	add(max(st.Inbox.Questions, st.NeedsInput), "question")
	states := map[string]int{}
	for _, a := range st.Attention {
		if a.State != status.NeedsAnswer {
			states[a.State]++
		}
	}
	needs = append(needs, show.StateCounts(states, p)...)
	add(st.Inbox.Parked, "parked task")
	add(st.Inbox.Mail, "message")
	return needs
}

// use returns the resources of an agent, or of all agents below a supervisor.
func (l *list) use(n status.Node, text func(usage.Resources) string) string {
	if n.Kind == "agent" {
		u, ok := l.used[n.Path]
		if !ok {
			return "-"
		}
		return text(u)
	}
	var sum usage.Resources
	for path, u := range l.used {
		if strings.HasPrefix(path, n.Path+"/") {
			sum.Add(u)
		}
	}
	return text(sum)
}
