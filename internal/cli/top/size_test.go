package top

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/usage"
)

// hostileText has what a terminal interprets, and more than fits on a screen.
var hostileText = "\x1b[2J\x1b]52;c;eA==\x07host\tile\u009b2J\u202e\xff " + strings.Repeat("x語", 300)

// largeFleet returns groups of 10 agents in all states, with n agents in total.
func largeFleet(n int) *fakeFleet {
	f := &fakeFleet{text: map[string][]string{}}
	states := []string{
		status.StateRunning, status.StateRunning, status.StateRunning, "restarting", "quarantined", status.StateStopped,
		status.StateWaiting,
	}
	s := status.Status{Project: "t", Summary: map[string]int{}, Controller: status.Controller{Uptime: 90}}
	nodes := []status.Node{{Path: "t", Kind: "supervisor", State: status.StateRunning, Strategy: "one_for_one"}}
	used := map[string]usage.Resources{}
	for i := range n {
		group := fmt.Sprintf("t/group-%02d", i/10)
		if i%10 == 0 {
			nodes = append(nodes, status.Node{Path: group, Kind: "supervisor", State: status.StateRunning,
				Strategy: "one_for_all"})
		}
		a := status.Node{Path: fmt.Sprintf("%s/agent-%03d", group, i), Kind: "agent", State: states[i%len(states)],
			Incarnation: uint64(i), Restarts: i, LimitMax: 20, InWindow: i % 20, LimitCounts: "starts",
			LastExit: "exit code 7"}
		if a.State == status.StateRunning {
			a.Uptime, used[a.Path] = float64(i), usage.Resources{CPU: float64(i) / 100, Memory: uint64(i) << 20}
		}
		if i%50 == 0 {
			at := time.Now().Add(time.Hour)
			a.StatusText, a.NextAt, a.LastExit = hostileText, &at, hostileText
			f.text[a.Path] = []string{displayLine(hostileText), displayLine("1%\r2%")}
		}
		s.Summary[a.State]++
		nodes = append(nodes, a)
	}
	f.data = snapshot{status: s, nodes: nodes, used: used}
	for i := range min(n/10, 8) {
		f.questions = append(f.questions, question.Question{ID: fmt.Sprintf("q-%d", i), From: nodes[2].Path,
			Text: strings.Repeat(hostileText+"\n", i), Options: []string{"yes\x1b[2J", "no", hostileText}[:i%4],
			Default: hostileText, Deadline: time.Now().Add(time.Hour)})
		m := mail.Message{ID: fmt.Sprintf("m-%d", i), From: hostileText, Subject: hostileText}
		f.messages = append(f.messages, m)
	}
	return f
}

// checkScreen checks what holds at any moment.
func (d *topTest) checkScreen(t rapid.TB) {
	m := d.m
	if len(m.rows) == 0 && m.selected != "" || len(m.rows) > 0 && m.rows[m.at].Path != m.selected {
		t.Fatalf("row %d of %d, but %q is selected", m.at, len(m.rows), m.selected)
	}
	lines := m.lines()
	if m.height > 0 && len(lines) > m.height {
		t.Fatalf("%d lines, %d fit", len(lines), m.height)
	}
	for _, line := range lines {
		if m.width > 0 && ansi.StringWidth(line) > m.width {
			t.Fatalf("%d columns, %d fit: %q", ansi.StringWidth(line), m.width, line)
		}
		if strings.ContainsAny(ansi.Strip(line), "\x1b\x07\r\n\t\u202e\u009b") {
			t.Fatalf("control characters: %q", line)
		}
	}
	marked := slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "> ") })
	if m.screen == showList && m.width >= minWidth && m.height >= minHeight && len(m.rows) > 0 && !marked {
		t.Fatalf("the selected row is not on the screen:\n%s", strings.Join(lines, "\n"))
	}
}

// Whatever is pressed, at any size: the screen holds, and the selected row exists and is visible.
func TestTopAnyKeys(t *testing.T) {
	t.Parallel()
	var keys []string
	for _, k := range newTopKeys().all() {
		keys = append(keys, k.Keys()...)
	}
	keys = append(keys, "y", "n", "1", "3", "9", "x", "語", "backspace", "ctrl+w", "ctrl+u")
	sizes := [][2]int{{80, 24}, {40, 10}, {200, 60}, {20, 4}, {19, 4}, {20, 3}, {1, 1}}
	rapid.Check(t, func(rt *rapid.T) {
		f := largeFleet(rapid.SampledFrom([]int{300, 25, 1, 0}).Draw(rt, "agents"))
		all := f.data.nodes
		d := newTopTest(t, f, 80, 24)
		f.rule = hostileText
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				size := rapid.SampledFrom(sizes).Draw(rt, "size")
				d.m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			case 1: // agents go and come
				f.data.nodes = all[:rapid.IntRange(1, len(all)).Draw(rt, "nodes")]
				d.m.Update(snapshotMsg{snapshot: f.data})
			case 2:
				d.m.Update(tea.PasteMsg{Content: rapid.SampledFrom([]string{"group-0", hostileText}).Draw(rt, "text")})
			default:
				d.press(rapid.SampledFrom(keys).Draw(rt, "key"))
			}
			if rapid.Bool().Draw(rt, "a second passes") {
				d.m.inbox.asked, d.m.explain.at = time.Time{}, time.Time{}
				d.draw()
			}
			d.checkScreen(rt)
		}
	})
}

// On a screen that shows nothing, keys do nothing, and a question stays.
func TestTopTooSmall(t *testing.T) {
	t.Parallel()
	d := newTopTest(t, largeFleet(300), 80, 24)
	d.press("s")
	for _, size := range [][2]int{{19, 24}, {80, 3}, {1, 1}} {
		d.m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		d.press("y", "S", "down")
		if len(d.calls) > 0 || d.m.pending == nil || strings.Contains(d.screen(), "y/N") {
			t.Errorf("%v: %q\n%s", size, d.calls, d.screen())
		}
	}
	d.m.Update(tea.WindowSizeMsg{Width: 20, Height: 4})
	d.shows("? y/N")
	d.press("y")
	if len(d.calls) != 1 {
		t.Errorf("%q", d.calls)
	}
	d.m.Update(tea.WindowSizeMsg{Width: 19, Height: 3})
	d.shows("too small;")
	if !d.press("q") {
		t.Error("q does not quit")
	}
}

// BenchmarkTopFrame measures a frame of 300 agents, with the snapshot that comes once a second and without.
func BenchmarkTopFrame(b *testing.B) {
	for _, pane := range []string{"log", "explain", "inbox", "changed"} {
		b.Run(pane, func(b *testing.B) {
			f := largeFleet(300)
			m := newTopModel(f, terminal.NewPaint(true), f.data)
			m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
			switch pane {
			case "explain":
				m.Update(keyOf("d"))
			case "inbox":
				m.Update(keyOf("i"))
			}
			if ask := m.ask(time.Now()); ask != nil {
				m.Update(ask())
			}
			for b.Loop() {
				if pane == "changed" {
					m.Update(snapshotMsg{snapshot: f.data})
				}
				m.Update(drawMsg{})
				m.View()
			}
		})
	}
}
