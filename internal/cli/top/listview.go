package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/internal/usage"
)

// visible returns how many rows of the tree fit. The output below gets at least a third of the
// screen.
func (m *topModel) visible() int { return max(1, min(len(m.rows), m.height*2/3-3)) }

func (m *topModel) listLines() []string {
	p := m.paint
	if m.table == nil {
		m.table = m.layOut()
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
	lines = append(lines, m.keyLine(), m.title(plaintext.Line(m.selected)))
	room := m.height - len(lines)
	if text := m.placeholder(); len(m.log.newest.lines) == 0 && text != "" {
		return append(lines, p.Dim(text))
	}
	return append(lines, lastRows(m.log.newest.lines, m.width, room, !m.truncated)...)
}

// placeholder returns the text shown when there is no output.
func (m *topModel) placeholder() string {
	switch n, ok := m.node(); {
	case !ok:
		return ""
	case n.Kind != "agent":
		return "select an agent to see its output"
	}
	return "no output yet"
}

// layOut returns the header and the rows, leaving space for the selection mark.
func (m *topModel) layOut() []string {
	nodes := m.rows
	names := show.Branches(nodes)
	if m.order != byTree || m.filter != "" {
		names = relativePaths(nodes)
	}
	columns := append(show.TreeColumns(names),
		show.NodeColumn("CPU", func(n status.Node) string { return m.use(n, usage.Resources.Processor) }),
		show.NodeColumn("MEM", func(n status.Node) string { return m.use(n, usage.Resources.Bytes) }),
		show.UptimeColumn(), show.NextColumn())
	columns = append(columns, show.StatusColumn(nodes)...)
	width := max(0, m.width-2)
	columns = show.FitColumns(nodes, columns, width)
	for i, c := range columns {
		if c.Name == m.order.column() {
			columns[i].Name += show.SortMark
		}
	}
	return show.NodeTable(nodes, columns, 0, width, m.paint)
}

// headline returns the state of the fleet, or why it is unknown.
func (m *topModel) headline() string {
	if m.err != nil {
		return m.paint.Red(plaintext.Line(strings.ReplaceAll(m.err.Error(), "\n", "; ")))
	}
	states := show.StateCounts(m.status.Summary, m.paint)
	if n := m.status.NeedsInput; n > 0 {
		text := fmt.Sprintf("%d need input: coppice inbox", n)
		states = append(states, show.PaintState(m.paint, status.ShownNeedsInput, text))
	}
	up := time.Duration(m.status.Controller.Uptime * float64(time.Second)).Truncate(time.Second)
	return fmt.Sprintf("%s  up %s  %s", m.paint.Bold(plaintext.Line(m.status.Project)), timespan.Short(up),
		strings.Join(states, "  "))
}

// use returns the resources of an agent, or of all agents below a supervisor.
func (m *topModel) use(n status.Node, text func(usage.Resources) string) string {
	if n.Kind == "agent" {
		u, ok := m.used[n.Path]
		if !ok {
			return "-"
		}
		return text(u)
	}
	var sum usage.Resources
	for path, u := range m.used {
		if strings.HasPrefix(path, n.Path+"/") {
			sum.Add(u)
		}
	}
	return text(sum)
}
