package top

import (
	"slices"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
)

// logTail is the end of an agent's output at one moment.
type logTail struct {
	lines []string // ready to show
	n     int      // total number of lines
}

// logView shows the end of the output. After scrolling up, the text stays still and newer lines
// wait in newest.
type logView struct {
	logTail
	newest     logTail
	view       viewport.Model
	scrolledUp bool

	laidOut bool // the view has the current text and size
	wrapped bool
}

func newLogView() logView {
	v := logView{view: viewport.New()}
	v.view.SetHorizontalStep(8)
	return v
}

// take receives new output.
func (v *logView) take(o logTail) {
	before := v.newest
	v.newest = o
	if !v.scrolledUp && (o.n != before.n || !slices.Equal(o.lines, before.lines)) {
		v.logTail, v.laidOut = o, false
	}
}

// waiting returns how many lines have arrived since scrolling up.
func (v *logView) waiting() int { return max(0, v.newest.n-v.n) }

// follow scrolls to the end and stays there.
func (v *logView) follow() {
	v.scrolledUp, v.laidOut = false, false
	v.logTail = v.newest
}

// fit lays out the text for the size of the screen.
func (v *logView) fit(width, height int, wrap bool) {
	height = max(1, height)
	if v.laidOut && v.wrapped == wrap && v.view.Width() == width && v.view.Height() == height {
		return
	}
	v.laidOut, v.wrapped = true, wrap
	v.view.SetWidth(width)
	v.view.SetHeight(height)
	lines := v.lines
	if wrap {
		v.view.SetXOffset(0)
		lines = terminal.WrapLines(lines, width)
	}
	v.view.SetContentLines(lines)
	if !v.scrolledUp {
		v.view.GotoBottom()
	}
}

func (v *logView) key(msg tea.KeyPressMsg, k topKeys) {
	if key.Matches(msg, k.last) {
		v.follow()
		return
	}
	scroll(&v.view, msg, k)
	if v.scrolledUp = !v.view.AtBottom(); !v.scrolledUp {
		v.follow()
	}
}

// scroll handles the keys that scroll a view.
func scroll(v *viewport.Model, msg tea.KeyPressMsg, k topKeys) {
	v.KeyMap = viewport.KeyMap{
		Up: k.up, Down: k.down, PageUp: k.pageUp, PageDown: k.pageDown, Left: k.left, Right: k.right,
	}
	switch {
	case key.Matches(msg, k.first):
		v.GotoTop()
	case key.Matches(msg, k.last):
		v.GotoBottom()
	default:
		*v, _ = v.Update(msg)
	}
}

// lastRows returns the last n rows of lines, wrapped or cut.
func lastRows(lines []string, width, n int, wrap bool) []string {
	lines = lines[max(0, len(lines)-max(0, n)):]
	if !wrap {
		rows := make([]string, len(lines))
		for i, line := range lines {
			rows[i] = ansi.Truncate(line, width, "…")
		}
		return rows
	}
	rows := terminal.WrapLines(lines, width)
	return rows[max(0, len(rows)-max(0, n)):]
}
