package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// liveView shows the tree above the last lines of output, drawn anew a few
// times a second. Lines go into a ring and are never waited for: a terminal is
// slower than a fleet. When the run has ended the last picture stays.
type liveView struct {
	in, out *os.File
	stop    *stopper
	paint   paint
	err     error

	lastLines
	mu    sync.Mutex
	words map[string]*lastWord
}

// lastWord is what events said of a child last, for the picture after the
// end, when there is nobody left to ask.
type lastWord struct {
	incarnation uint64
	restarts    int
	exit        supervisor.Exit
	reason      supervisor.Reason
}

// A terminal is not as high, nor as wide.
const (
	keepLines = 512
	keepText  = 4 << 10 // bytes
)

// summaryLines is what follows the last picture: the summary and the reason.
const summaryLines = 4

// frame is the time between two pictures.
const frame = 100 * time.Millisecond

func newLiveView(in, out *os.File, stop *stopper) *liveView {
	return &liveView{in: in, out: out, stop: stop, paint: newPaint(true), words: map[string]*lastWord{}}
}

// lastLines is a ring of lines, as many as a terminal may show.
type lastLines struct {
	mu    sync.Mutex
	lines [keepLines]string
	n     int // lines ever
}

func (l *lastLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[l.n%keepLines] = line
	l.n++
}

func (l *lastLines) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n = 0
}

// last returns the last n lines, oldest first.
func (l *lastLines) last(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = max(0, min(n, l.n, keepLines))
	out := make([]string, n)
	for i := range out {
		out[i] = l.lines[(l.n-n+i)%keepLines]
	}
	return out
}

// shown is a line of output as a picture can have it: a tab has no width of
// its own, and the terminal would break the line.
func shown(text string) string {
	text = proc.Plain(text)
	if len(text) > keepText { // no terminal is wider
		text = strings.ToValidUTF8(text[:keepText], "")
	}
	return strings.ReplaceAll(text, "\t", "    ")
}

func (v *liveView) remember(e supervisor.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := e.Header()
	w := v.words[h.Path()]
	if w == nil {
		w = &lastWord{}
		v.words[h.Path()] = w
	}
	w.incarnation = max(w.incarnation, h.Incarnation)
	var d supervisor.Decision
	switch e := e.(type) {
	case supervisor.ChildExited:
		w.exit, d = e.Exit, e.Decision
	case supervisor.ChildStartFailed:
		d = e.Decision
	case supervisor.ChildStopped:
		w.exit, d.Reason = e.Exit, e.Reason
	default:
		return
	}
	w.reason = d.Reason
	if d.Action == supervisor.RestartIt {
		w.restarts++
		w.reason = supervisor.NoReason // why it is to run is no reason why it does not
	}
}

// final brings what was last seen of a child to its end.
func (v *liveView) final(n *api.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n.State, n.NextAt = stateStopped, nil
	if w := v.words[n.Path]; w != nil {
		n.Incarnation, n.Restarts = max(n.Incarnation, w.incarnation), max(n.Restarts, w.restarts)
		n.LastExit, n.Reason = "", ""
		if k := w.exit.Kind; k != supervisor.NoExit && k != supervisor.ShutDown {
			n.LastExit = exitText(w.exit)
		}
		if w.reason != supervisor.ReasonShutdown { // of everything, as is plain to see
			n.Reason = w.reason.String()
		}
	}
}

// nodes is the tree as it is now; nothing once it has ended.
func (v *liveView) nodes(c *daemon.Controller) []api.Node {
	all, err := c.Nodes(context.Background(), "")
	if err != nil || len(all) <= 1 {
		return nil
	}
	// Of the root there is nothing to say but that it is there.
	all[0] = api.Node{Path: all[0].Path, Kind: all[0].Kind, Strategy: all[0].Strategy}
	for i := range all[1:] {
		switch n := &all[1+i]; {
		case n.State == stateStopped && n.LastExit == "": // temporary, and forgotten by its supervisor
			v.final(n)
		default:
			n.LastExit = strings.TrimPrefix(n.LastExit, "failure: ")
		}
	}
	return all
}

// Write takes what the log of the daemon has to say.
func (v *liveView) Write(p []byte) (int, error) {
	v.add("coppice " + v.paint.dim("!") + " " + shown(strings.TrimRight(string(p), "\n")))
	return len(p), nil
}

func (v *liveView) event(e supervisor.Event) {
	v.remember(e)
	if text := describe(e); text != "" {
		v.add(fmt.Sprintf("%s %s %s", e.Header().Path(), v.paint.dim("*"), v.paint.event(e, proc.Plain(text))))
	}
}

func (v *liveView) output(path string, _ uint64, line proc.Line) {
	v.add(fmt.Sprintf("%s %s %s", path, v.paint.dim("|"), shown(line.Text)))
}

func (v *liveView) order(e event.Event) { v.add(orderLine(e, v.paint)) }

func (v *liveView) watch(ctx context.Context, c *daemon.Controller) {
	m := &liveModel{view: v, fleet: c, nodes: v.nodes(c), began: time.Now()}
	p := tea.NewProgram(m, tea.WithInput(v.in), tea.WithOutput(v.out), tea.WithoutSignalHandler())
	quit := context.AfterFunc(ctx, func() { p.Send(endMsg{}) })
	defer quit()
	if _, err := p.Run(); err != nil {
		v.err = err
		v.stop.broken()
		<-ctx.Done()
	}
}

func (v *liveView) close(summary []string) error {
	for _, line := range summary {
		fmt.Fprintln(v.out, line)
	}
	return v.err
}

// liveModel is the program that draws.
type liveModel struct {
	view          *liveView
	fleet         *daemon.Controller
	nodes         []api.Node
	began         time.Time
	width, height int
	ended         bool
}

type (
	tickMsg struct{}
	endMsg  struct{}
)

func tick() tea.Cmd { return tea.Tick(frame, func(time.Time) tea.Msg { return tickMsg{} }) }

func (m *liveModel) Init() tea.Cmd { return tick() }

func (m *liveModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "ctrl+c", "q":
			m.view.stop.signal(syscall.SIGINT)
		}
	case tickMsg:
		if nodes := m.view.nodes(m.fleet); nodes != nil { // keep the last word of a fleet that has ended
			m.nodes = nodes
		}
		return m, tick()
	case endMsg:
		m.ended = true
		for i := range m.nodes[min(1, len(m.nodes)):] {
			m.view.final(&m.nodes[1+i])
		}
		return m, tea.Quit
	}
	return m, nil
}

func (m *liveModel) View() tea.View {
	p := m.view.paint
	// The tree may be higher than the terminal; the output gets at least a third of it.
	most := 0
	if m.height > 0 {
		most = max(2, m.height*2/3-2)
	}
	tree := nodeTable(m.nodes, append(treeColumns(m.nodes), uptimeColumn(), nextColumn()), most, m.width, p)
	help := "Ctrl-C stops all agents in order"
	switch {
	case m.ended:
		help = "ended after " + short(time.Since(m.began))
	case m.view.stop.first() != 0:
		help = "stopping; Ctrl-C again kills"
	}
	tree = append(tree, p.dim(ansi.Truncate(help, max(m.width, 20), "…")))
	room := m.height - len(tree) - 1
	if m.ended {
		room -= summaryLines
	}
	for _, line := range m.view.last(room) {
		if m.width > 0 {
			line = ansi.Truncate(line, m.width, "…")
		}
		tree = append(tree, line)
	}
	if m.ended {
		tree = append(tree, "") // Bubble Tea erases the last line when it leaves
	}
	return tea.NewView(strings.Join(tree, "\n"))
}
