package top

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// canvas is what lines are drawn for.
type canvas struct {
	paint         terminal.Paint
	width, height int
}

func (m *topModel) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

// The least size of a screen on which something can be selected and seen.
const (
	minWidth  = 20
	minHeight = 4
)

// tooSmall reports whether the screen does not show what keys act on.
func (c canvas) tooSmall() bool {
	return c.width > 0 && c.height > 0 && (c.width < minWidth || c.height < minHeight)
}

// lines returns the lines of the screen, cut to the size of the terminal.
func (m *topModel) lines() []string {
	var lines []string
	switch {
	case m.tooSmall():
		lines = terminal.Wrap(fmt.Sprintf("too small; top needs %dx%d", minWidth, minHeight), 0, m.width)
	case m.screen == showPane:
		lines = m.paneLines()
	case m.screen == showHelp:
		lines = m.helpLines()
	default:
		lines = m.listLines()
	}
	if m.height > 0 && len(lines) > m.height {
		lines = lines[:m.height]
	}
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "\t", " ") // a tab has no width of its own
		if m.width > 0 {
			lines[i] = ansi.Truncate(lines[i], m.width, "…")
		}
	}
	return lines
}

// fit adapts the scrollable views to the size of the screen.
func (m *topModel) fit() {
	switch m.screen {
	case showPane:
		m.fitPane()
	case showHelp:
		fitView(&m.helpView, helpLines(m.keys.all()), m.width, m.height-2)
	}
}

// wrapped breaks lines at spaces, and words that are wider than the screen.
func wrapped(lines []string, hang, width int) []string {
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "\t", "    ") // as in a log
	}
	return terminal.WrapLines(terminal.WrapAll(lines, hang, width), width)
}

// fitView gives a view its content and size.
func fitView(v *viewport.Model, lines []string, width, height int) {
	v.SetWidth(width)
	v.SetHeight(max(1, height))
	v.SetContentLines(lines)
}

// keyLine returns the line between the tree and the output: a question, the filter, a note, or the
// keys.
func (m *topModel) keyLine() string {
	p := m.paint
	switch {
	case m.pending != nil:
		return p.Bold(plaintext.Line(confirmation(m.pending.action, m.nodes, m.pending.path, m.width)))
	case m.typing:
		help := fmt.Sprintf("%d of %d; Enter keeps it, Esc clears it", len(m.rows), len(m.nodes))
		return m.inputLine("/", m.filter, help)
	case m.note != "":
		return plaintext.Line(strings.ReplaceAll(m.note, "\n", "; "))
	case m.filter != "":
		typed := plaintext.Line("/" + m.filter)
		keys := []key.Binding{m.keys.help, m.keys.back}
		return p.Bold(typed) + "  " + p.Dim(shortHelp(keys, m.width-ansi.StringWidth(typed)-2))
	}
	return p.Dim(shortHelp(m.keys.inList(), m.width))
}

// title returns a line with a text above something else.
func (c canvas) title(text string) string {
	text = "── " + text + " "
	return c.paint.Dim(text + strings.Repeat("─", max(0, c.width-ansi.StringWidth(text))))
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
