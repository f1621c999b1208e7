package top

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/internal/usage"
)

func (m *topModel) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

// lines returns the lines of the screen, cut to the size of the terminal.
func (m *topModel) lines() []string {
	var lines []string
	switch m.screen {
	case showLog:
		lines = m.logLines()
	case showHelp:
		lines = m.helpLines()
	default:
		lines = m.listLines()
	}
	if m.height > 0 && len(lines) > m.height {
		lines = lines[:m.height]
	}
	if m.width > 0 {
		for i, line := range lines {
			lines[i] = ansi.Truncate(line, m.width, "…")
		}
	}
	return lines
}

// fit adapts the scrollable views to the size of the screen.
func (m *topModel) fit() {
	switch m.screen {
	case showLog:
		m.log.fit(m.width, m.height-2, !m.truncated)
	case showHelp:
		m.helpView.SetWidth(m.width)
		m.helpView.SetHeight(max(1, m.height-2))
		m.helpView.SetContentLines(helpLines(m.keys.all()))
	}
}

// visible returns how many rows of the tree fit. The output below gets at least a third of the
// screen.
func (m *topModel) visible() int { return max(1, min(len(m.rows), m.height*2/3-3)) }

func (m *topModel) listLines() []string {
	p := m.paint
	tree := m.table()
	rows := m.visible()
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

// cursor is a space in reverse video, which also works without colours.
const cursor = "\x1b[7m \x1b[0m"

// keyLine returns the line between the tree and the output: a question, the filter, a note, or the
// keys.
func (m *topModel) keyLine() string {
	p := m.paint
	switch {
	case m.pending != nil:
		return p.Bold(plaintext.Line(confirmation(m.pending.action, m.nodes, m.pending.path, m.width)))
	case m.typing:
		help := fmt.Sprintf("%d of %d; Enter keeps it, Esc clears it", len(m.rows), len(m.nodes))
		return "/" + plaintext.Line(m.filter) + cursor + " " + p.Dim(help)
	case m.note != "":
		return plaintext.Line(strings.ReplaceAll(m.note, "\n", "; "))
	case m.filter != "":
		typed := plaintext.Line("/" + m.filter)
		keys := []key.Binding{m.keys.help, m.keys.back}
		return p.Bold(typed) + "  " + p.Dim(shortHelp(keys, m.width-ansi.StringWidth(typed)-2))
	}
	return p.Dim(shortHelp(m.keys.inList(), m.width))
}

func (m *topModel) title(text string) string {
	text = "── " + text + " "
	return m.paint.Dim(text + strings.Repeat("─", max(0, m.width-ansi.StringWidth(text))))
}

func (m *topModel) logLines() []string {
	title := plaintext.Line(m.selected)
	if m.log.scrolledUp {
		title += fmt.Sprintf(" (%d%%, %d new below)", int(100*m.log.view.ScrollPercent()), m.log.waiting())
	}
	lines := append([]string{m.title(title)}, scrolled(m.log.view)...)
	last := m.paint.Dim(shortHelp(m.keys.inLog(), m.width))
	switch {
	case m.err != nil:
		last = m.paint.Red(plaintext.Line(m.err.Error()))
	case m.note != "":
		last = plaintext.Line(m.note)
	}
	return append(lines[:min(len(lines), max(1, m.height-1))], last)
}

func (m *topModel) helpLines() []string {
	lines := append([]string{m.title("keys")}, scrolled(m.helpView)...)
	return append(lines, m.paint.Dim("Esc goes back"))
}

// scrolled returns the visible lines of a view.
func scrolled(v viewport.Model) []string {
	lines := strings.Split(v.View(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// table returns the header and the rows, leaving space for the selection mark.
func (m *topModel) table() []string {
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
