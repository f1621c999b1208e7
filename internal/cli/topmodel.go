package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// topModel is the screen of top.
type topModel struct {
	ctx    context.Context
	client *api.Client
	meter  *meter
	paint  paint
	topData
	err           error  // why the data is old
	selected      string // path
	above         int    // rows that are scrolled away
	note          string // what came of the last key
	tail          tailing
	width, height int
}

// lookEvery is the time between two looks, and the one over which use is measured.
const lookEvery = time.Second

type (
	lookMsg struct {
		topData
		err error
	}
	noteMsg  string
	drawMsg  struct{}
	againMsg struct{}
)

func (m *topModel) look() tea.Msg {
	ctx, cancel := context.WithTimeout(m.ctx, 10*time.Second)
	defer cancel()
	d, err := look(ctx, m.client, m.meter)
	return lookMsg{d, err}
}

// draw makes new output visible.
func draw() tea.Cmd { return tea.Tick(frame, func(time.Time) tea.Msg { return drawMsg{} }) }

func (m *topModel) Init() tea.Cmd {
	m.pick(0)
	return tea.Batch(m.look, draw())
}

func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	case drawMsg:
		return m, draw()
	case noteMsg:
		m.note = string(msg) // the next look shows what came of it
	case lookMsg:
		if m.err = msg.err; msg.err == nil {
			m.topData = msg.topData
			m.pick(0)
		}
		return m, tea.Tick(lookEvery, func(time.Time) tea.Msg { return againMsg{} })
	case againMsg:
		return m, m.look
	}
	return m, nil
}

func (m *topModel) key(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "j", "down":
		m.pick(1)
	case "k", "up":
		m.pick(-1)
	case "g", "home":
		m.pick(-len(m.nodes))
	case "G", "end":
		m.pick(len(m.nodes))
	case "s":
		return m.act(api.Stop)
	case "S":
		return m.act(api.Start)
	case "r":
		return m.act(api.Restart)
	case "a":
		if m.selected != "" {
			path := m.selected
			return tea.Exec(&attaching{model: m, path: path}, func(err error) tea.Msg {
				if err != nil {
					return noteMsg(err.Error())
				}
				return noteMsg("")
			})
		}
	}
	return nil
}

// index is the row of the selected node, the first if it is gone.
func (m *topModel) index() int {
	return max(0, slices.IndexFunc(m.nodes, func(n api.Node) bool { return n.Path == m.selected }))
}

// pick moves the selection, and shows the output of what it is on.
func (m *topModel) pick(by int) {
	if len(m.nodes) == 0 {
		return
	}
	n := m.nodes[min(max(0, m.index()+by), len(m.nodes)-1)]
	m.selected = n.Path
	if n.Kind != "agent" {
		m.tail.stop()
		m.tail = tailing{}
	} else if m.tail.path != n.Path {
		m.tail.follow(m.ctx, m.client, n.Path)
	}
}

func (m *topModel) act(action api.Action) tea.Cmd {
	path := m.selected
	if path == "" {
		return nil
	}
	m.note = fmt.Sprintf("%s %s …", action, path)
	return func() tea.Msg {
		if _, err := m.client.Act(m.ctx, path, action); err != nil {
			return noteMsg(err.Error())
		}
		return noteMsg(fmt.Sprintf("%s %s: done", action, path))
	}
}

func (m *topModel) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

// lines is the screen: what is where, the tree, the output.
func (m *topModel) lines() []string {
	p := m.paint
	cut := func(text string) string {
		if m.width > 0 {
			return ansi.Truncate(text, m.width, "…")
		}
		return text
	}
	lines := []string{cut(m.headline())}
	columns := append(treeColumns(m.nodes),
		column{"CPU", func(_ int, n api.Node, _ time.Time) string { return m.use(n, resources.processor) }},
		column{"MEM", func(_ int, n api.Node, _ time.Time) string { return m.use(n, resources.bytes) }},
		uptimeColumn(), nextColumn())
	columns = append(columns, statusColumn(m.nodes)...)
	tree := nodeTable(m.nodes, columns, 0, max(0, m.width-2), p)
	// The selected row is in sight, and the output has at least a third of the screen.
	rows, at := max(1, min(len(tree)-1, m.height*2/3-3)), m.index()
	m.above = max(0, min(m.above, at, len(tree)-1-rows), at-rows+1)
	lines = append(lines, "  "+tree[0])
	for i, line := range tree[1:] {
		switch {
		case i < m.above || i >= m.above+rows:
		case i == at:
			lines = append(lines, p.bold("> ")+line)
		default:
			lines = append(lines, "  "+line)
		}
	}
	help := "j k select   s stop   S start   r restart   a attach   q quit"
	switch {
	case m.err != nil:
		help = p.red(proc.Plain(m.err.Error()))
	case m.note != "":
		help = proc.Plain(strings.ReplaceAll(m.note, "\n", "; "))
	default:
		help = p.dim(help)
	}
	title := "── " + proc.Plain(m.selected) + " "
	title += strings.Repeat("─", max(0, m.width-ansi.StringWidth(title)))
	lines = append(lines, cut(help), p.dim(cut(title)))
	if m.tail.lines != nil {
		for _, line := range m.tail.lines.last(m.height - len(lines)) {
			lines = append(lines, cut(line))
		}
	}
	if m.height > 0 && len(lines) > m.height {
		lines = lines[:m.height]
	}
	return lines
}

func (m *topModel) headline() string {
	var states []string
	for _, state := range slices.Sorted(maps.Keys(m.status.Summary)) {
		if n := m.status.Summary[state]; n > 0 {
			states = append(states, m.paint.state(state, proc.Plain(fmt.Sprintf("%d %s", n, state))))
		}
	}
	if n := m.status.NeedsInput; n > 0 {
		states = append(states, m.paint.state(needsInput, fmt.Sprintf("%d need input: coppice inbox", n)))
	}
	return fmt.Sprintf("%s  up %s  %s", m.paint.bold(proc.Plain(m.status.Project)),
		short(time.Duration(m.status.Controller.Uptime*float64(time.Second)).Truncate(time.Second)), strings.Join(states, "  "))
}

// use is what an agent uses, or all agents below a supervisor.
func (m *topModel) use(n api.Node, text func(resources) string) string {
	if n.Kind == "agent" {
		u, ok := m.used[n.Path]
		if !ok {
			return "-"
		}
		return text(u)
	}
	var sum resources
	for path, u := range m.used {
		if strings.HasPrefix(path, n.Path+"/") {
			sum.cpu += u.cpu
			sum.memory += u.memory
		}
	}
	return text(sum)
}

func (u resources) processor() string { return fmt.Sprintf("%.0f%%", u.cpu*100) }

func (u resources) bytes() string {
	const k = 1 << 10
	size := float64(u.memory) / k
	for _, unit := range []string{"K", "M", "G"} {
		if size < 1000 {
			if size < 10 && unit != "K" {
				return fmt.Sprintf("%.1f%s", size, unit)
			}
			return fmt.Sprintf("%.0f%s", size, unit)
		}
		size /= k
	}
	return fmt.Sprintf("%.1fT", size)
}
