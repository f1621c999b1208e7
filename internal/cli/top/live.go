package top

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/cli/foreground"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/controller"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/supervisor"
)

// Live is the live view of run: the tree above the last lines of output, redrawn several times a
// second. Lines go to a ring buffer, so that a slow terminal never delays the fleet. The last frame
// stays after the run.
type Live struct {
	in, out *os.File
	stop    *foreground.Stopper
	paint   terminal.Paint
	err     error

	*lastLines
	mu      sync.Mutex
	ends    status.Endings
	partial map[outputSource]string // unfinished lines
}

// outputSource is an output stream of an agent.
type outputSource struct {
	path   string
	stream proc.Stream
}

// No terminal is that high or wide.
const (
	maxLines     = 512
	maxLineBytes = 4 << 10
)

// summaryLines is the space for what run prints below the last frame: the summary and the reason.
const summaryLines = 4

// frameInterval is the time between two frames.
const frameInterval = 100 * time.Millisecond

func NewLive(in, out *os.File, stop *foreground.Stopper) *Live {
	return &Live{
		in: in, out: out, stop: stop, paint: terminal.NewPaint(true), lastLines: newLastLines(maxLines),
		partial: map[outputSource]string{},
	}
}

// lastLines is a ring buffer of lines.
type lastLines struct {
	mu    sync.Mutex
	lines []string
	n     int // total number of lines added
}

func newLastLines(keep int) *lastLines { return &lastLines{lines: make([]string, keep)} }

func (l *lastLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[l.n%len(l.lines)] = line
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
	return l.tail(n)
}

// output returns all lines that are kept.
func (l *lastLines) output() logTail {
	l.mu.Lock()
	defer l.mu.Unlock()
	return logTail{l.tail(len(l.lines)), l.n}
}

func (l *lastLines) tail(n int) []string {
	n = max(0, min(n, l.n, len(l.lines)))
	out := make([]string, n)
	for i := range out {
		out[i] = l.lines[(l.n-n+i)%len(l.lines)]
	}
	return out
}

// displayLine prepares a line of output for the screen: without overwritten text, long lines or
// tabs, whose width varies.
func displayLine(text string) string {
	text = proc.OnScreen(text)
	if len(text) > maxLineBytes {
		text = strings.ToValidUTF8(text[:maxLineBytes], "")
	}
	return strings.ReplaceAll(text, "\t", "    ")
}

// nodes returns the current tree; nil once it has ended.
func (v *Live) nodes(c *controller.Controller) []status.Node {
	all, err := c.Model().Nodes(context.Background(), "")
	if err != nil || len(all) <= 1 {
		return nil
	}
	for i := range all[1:] {
		if n := &all[1+i]; n.State == status.StateStopped && n.LastExit == "" {
			// The agent is temporary, and its supervisor has dropped it.
			v.ends.Complete(n)
		}
	}
	return all
}

// Write receives log lines of the daemon.
func (v *Live) Write(p []byte) (int, error) {
	v.add("coppice " + v.paint.Dim("!") + " " + displayLine(strings.TrimRight(string(p), "\n")))
	return len(p), nil
}

func (v *Live) Event(e supervisor.Event) {
	v.ends.Observe(e)
	if line := show.SupervisorLine(e, v.paint); line != "" {
		v.add(line)
	}
}

func (v *Live) Output(path string, _ uint64, line proc.Line) {
	text, from := show.OutputLine(path, displayLine(line.Text), v.paint), outputSource{path, line.Stream}
	v.mu.Lock()
	defer v.mu.Unlock()
	if line.Partial {
		v.partial[from] = text
		return
	}
	delete(v.partial, from)
	v.add(text)
}

// newest returns at most n lines: the last ones, then unfinished ones, which get up to half of the
// space.
func (v *Live) newest(n int) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	from := slices.SortedFunc(maps.Keys(v.partial), func(a, b outputSource) int {
		return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(a.stream, b.stream))
	})
	from = from[:max(0, min(len(from), (n+1)/2))]
	lines := v.last(n - len(from))
	for _, s := range from {
		lines = append(lines, v.partial[s])
	}
	return lines
}

func (v *Live) Order(e event.Event) { v.add(show.OrderLine(e, v.paint)) }

func (v *Live) Watch(ctx context.Context, c *controller.Controller) {
	m := &liveModel{view: v, fleet: c, nodes: v.nodes(c), began: time.Now()}
	p := tea.NewProgram(m, tea.WithInput(v.in), tea.WithOutput(v.out), tea.WithoutSignalHandler())
	quit := context.AfterFunc(ctx, func() { p.Send(endMsg{}) })
	defer quit()
	if _, err := p.Run(); err != nil {
		v.err = err
		v.stop.Broken()
		<-ctx.Done()
	}
}

func (v *Live) Close(summary []string) error {
	for _, line := range summary {
		fmt.Fprintln(v.out, line)
	}
	return v.err
}

// liveModel is the Bubble Tea model of Live.
type liveModel struct {
	view          *Live
	fleet         *controller.Controller
	nodes         []status.Node
	began         time.Time
	width, height int
	ended         bool
	pending       bool // q was pressed, and is to be confirmed
}

type (
	tickMsg struct{}
	endMsg  struct{}
)

func tick() tea.Cmd { return tea.Tick(frameInterval, func(time.Time) tea.Msg { return tickMsg{} }) }

func (m *liveModel) Init() tea.Cmd { return tick() }

func (m *liveModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		m.key(msg)
	case tickMsg:
		if nodes := m.view.nodes(m.fleet); nodes != nil { // keep the last state of a fleet that has ended
			status.KeepLimits(nodes, m.nodes)
			m.nodes = nodes
		}
		return m, tick()
	case endMsg:
		m.ended = true
		for i := range m.nodes {
			m.view.ends.Complete(&m.nodes[i])
		}
		return m, tea.Quit
	}
	return m, nil
}

func (m *liveModel) key(msg tea.KeyPressMsg) {
	k, pending := newRunKeys(), m.pending
	m.pending = false
	switch {
	case key.Matches(msg, k.interrupt):
		m.view.stop.Signal(syscall.SIGINT)
	case pending && strings.EqualFold(msg.String(), "y"):
		m.view.stop.Key("q")
	case key.Matches(msg, k.quit) && !pending:
		m.pending = m.view.stop.First() == 0 && len(m.nodes) > 0
	}
}

// keyLine returns the line between the tree and the output.
func (m *liveModel) keyLine() string {
	p, width := m.view.paint, max(m.width, 20)
	text := shortHelp(newRunKeys().all(), width)
	switch sig := m.view.stop.First(); {
	case m.ended:
		text = "ended after " + timespan.Short(time.Since(m.began))
	case m.view.stop.Kills():
		text = "killing all agents"
	case sig != 0 && m.view.stop.Cause() == unix.SignalName(sig):
		text = "stopping; Ctrl-C again kills"
	case sig != 0:
		text = "stopping; Ctrl-C kills"
	case m.pending:
		return p.Bold(plaintext.Line(confirmation(control.Stop, m.nodes, m.nodes[0].Path, width)))
	}
	return p.Dim(ansi.Truncate(text, width, "…"))
}

func (m *liveModel) View() tea.View { return tea.NewView(strings.Join(m.lines(), "\n")) }

// lines returns the lines of the frame, at most as many as the terminal has.
func (m *liveModel) lines() []string {
	p := m.view.paint
	// The output gets at least a third of the terminal, even if the tree is higher.
	most := 0
	if m.height > 0 {
		most = max(2, m.height*2/3-2)
	}
	columns := append(show.TreeColumns(show.Branches(m.nodes)), show.UptimeColumn(), show.NextColumn())
	lines := append(show.NodeTable(m.nodes, show.FitColumns(m.nodes, columns, m.width), most, m.width, p), m.keyLine())
	room := m.height - len(lines) - 1
	if m.ended {
		room -= summaryLines
	}
	lines = append(lines, lastRows(m.view.newest(max(0, room)), m.width, room, true)...)
	if m.ended { // Bubble Tea erases the last line when it quits
		if m.height > 0 {
			lines = lines[:min(len(lines), m.height-1)]
		}
		lines = append(lines, "")
	}
	return lines
}
