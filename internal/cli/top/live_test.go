package top

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/cli/foreground"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

// q asks and Ctrl-C does not. The cause of the stop is named correctly.
func TestLiveKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		keys   string
		line   string
		signal syscall.Signal
		cause  string
	}{
		{"", "q stop  Ctrl-C stop without asking", 0, ""},
		{"q", "stop all 4 agents? y/N", 0, ""},
		{"q q", "q stop  Ctrl-C stop without asking", 0, ""},
		{"q n y", "q stop  Ctrl-C stop without asking", 0, ""},
		{"y", "q stop  Ctrl-C stop without asking", 0, ""},
		{"q enter", "q stop  Ctrl-C stop without asking", 0, ""},
		{"q y", "stopping; Ctrl-C kills", syscall.SIGINT, "q"},
		{"q Y q y", "stopping; Ctrl-C kills", syscall.SIGINT, "q"},
		{"q ctrl+c", "stopping; Ctrl-C again kills", syscall.SIGINT, "SIGINT"},
		{"ctrl+c q y", "stopping; Ctrl-C again kills", syscall.SIGINT, "SIGINT"},
	} {
		stop, _ := foreground.NewStopper()
		m := &liveModel{view: NewLive(nil, nil, stop), nodes: shopFleet().data.nodes}
		m.view.paint = terminal.Paint{}
		m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
		for k := range strings.FieldsSeq(test.keys) {
			m.Update(keyOf(k))
		}
		if screen := m.lines(); !slices.Contains(screen, test.line) {
			t.Errorf("%q: no %q in %q", test.keys, test.line, screen)
		}
		if stop.First() != test.signal || stop.Cause() != test.cause {
			t.Errorf("%q: stopped by %v, %q", test.keys, stop.First(), stop.Cause())
		}
	}
}

// An unfinished line is shown below the others until it is complete.
func TestLivePartial(t *testing.T) {
	t.Parallel()
	v := NewLive(nil, nil, nil)
	v.paint = terminal.Paint{}
	for _, step := range []struct {
		line proc.Line
		want string
	}{
		{proc.Line{Stream: proc.Stdout, Text: "one"}, "a | one"},
		{proc.Line{Stream: proc.Stdout, Text: "1%\r2%", Partial: true}, "a | one,a | 2%"},
		{proc.Line{Stream: proc.Stderr, Text: "oh", Partial: true}, "a | one,a | 2%,a | oh"},
		{proc.Line{Stream: proc.Stdout, Text: "1%\r2%\r3%", Partial: true}, "a | one,a | 3%,a | oh"},
		{proc.Line{Stream: proc.Stderr, Text: "oh no"}, "a | one,a | oh no,a | 3%"},
		{proc.Line{Stream: proc.Stdout, Text: "1%\r2%\r3%\rdone"}, "a | one,a | oh no,a | done"},
	} {
		v.Output("a", 1, step.line)
		if got := strings.Join(v.newest(10), ","); got != step.want {
			t.Errorf("after %+v: %q, want %q", step.line, got, step.want)
		}
	}
	for i := range 20 {
		v.Output(fmt.Sprintf("b%02d", i), 1, proc.Line{Text: "?", Partial: true})
	}
	if got := v.newest(4); strings.Join(got, ",") != "a | oh no,a | done,b00 | ?,b01 | ?" {
		t.Errorf("%q", got)
	}
}

func TestLiveSizes(t *testing.T) {
	t.Parallel()
	f := shopFleet()
	for i := range 20 {
		f.data.nodes = append(f.data.nodes, status.Node{Path: fmt.Sprintf("t/%s%d", strings.Repeat("long-", 10), i), Kind: "agent", State: status.StateRunning, InWindow: 345, LimitMax: 400, LimitCounts: "starts", Uptime: 3600})
	}
	stop, _ := foreground.NewStopper()
	v := NewLive(nil, nil, stop)
	v.paint = terminal.Paint{}
	v.Output("t/shop/web", 1, proc.Line{Text: "\x1b[2J\x1b]52;c;eA==\x07hostile\u202e\xff " + strings.Repeat("x語", 300)})
	v.Output("t/shop/web", 1, proc.Line{Text: "progress 1%\rprogress 2%"})
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 50}, {40, 10}, {20, 4}} {
		m := &liveModel{view: v, nodes: f.data.nodes}
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for _, ended := range []bool{false, true} {
			m.ended = ended
			lines := m.lines()
			for _, line := range lines {
				if ansi.StringWidth(line) > size[0] || strings.ContainsAny(line, "\x1b\x07\r\n\u202e") {
					t.Errorf("%v: %q", size, line)
				}
			}
			if len(lines) > size[1] {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			if text := strings.Join(lines, "\n"); size[0] >= 80 && (!strings.Contains(text, " 345/400 ") || !strings.Contains(text, "1h00m")) || size[1] > 10 && !strings.Contains(text, "| progress 2%") {
				t.Errorf("%v:\n%s", size, text)
			}
		}
	}
}
