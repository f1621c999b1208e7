package top

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/status"
)

// The initial selection is never the root.
func TestTopFirstChoice(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(d *snapshot)
		want   string
	}{
		"first agent": {func(*snapshot) {}, "t/shop/web"},
		"needs a person": {func(d *snapshot) {
			d.status.Attention = []status.Attention{{Path: "coppice.toml"}, {Path: "t/api"}}
		}, "t/api"},
		"paused supervisor": {func(d *snapshot) {
			d.status.Attention = []status.Attention{{Path: "t/shop"}}
		}, "t/shop"},
		"the root itself":  {func(d *snapshot) { d.status.Attention = []status.Attention{{Path: "t"}} }, "t/shop/web"},
		"an older daemon":  {func(d *snapshot) { d.nodes[5].State = "quarantined" }, "t/fla"},
		"no agents":        {func(d *snapshot) { d.nodes = d.nodes[:2] }, "t/shop"},
		"nothing but root": {func(d *snapshot) { d.nodes = d.nodes[:1] }, "t"},
	} {
		f := shopFleet()
		test.change(&f.data)
		d := newTopTest(t, f, 80, 24)
		if d.m.selected != test.want {
			t.Errorf("%s: %s is selected, want %s", name, d.m.selected, test.want)
		}
	}
}

// Destructive actions ask first, and name the number of agents.
func TestTopAsks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		keys     []string
		question string
		then     string
		want     []string
	}{
		{[]string{"s"}, "stop t/shop/web? y/N", "y", []string{"stop t/shop/web"}},
		{[]string{"s"}, "stop t/shop/web? y/N", "Y", []string{"stop t/shop/web"}},
		{[]string{"s"}, "stop t/shop/web? y/N", "enter", nil},
		{[]string{"s"}, "stop t/shop/web? y/N", "n", nil},
		{[]string{"s"}, "stop t/shop/web? y/N", "s", nil},
		{[]string{"s"}, "stop t/shop/web? y/N", "esc", nil},
		{[]string{"r"}, "restart t/shop/web? y/N", "y", []string{"restart t/shop/web"}},
		{[]string{"up", "s"}, "stop t/shop, 2 agents? y/N", "y", []string{"stop t/shop"}},
		{[]string{"home", "s"}, "stop all 4 agents? y/N", "y", []string{"stop t"}},
		{[]string{"g", "r"}, "restart all 4 agents? y/N", "y", []string{"restart t"}},
		{[]string{"S"}, "start t/shop/web: done", "up", []string{"start t/shop/web"}},
		{[]string{"f9"}, "stop t/shop/web? y/N", "y", []string{"stop t/shop/web"}},
		{[]string{"f7"}, "start t/shop/web: done", "up", []string{"start t/shop/web"}},
		{[]string{"ctrl+r"}, "restart t/shop/web? y/N", "y", []string{"restart t/shop/web"}},
		{[]string{"p"}, "suspend t/shop/web? y/N", "y", []string{"suspend t/shop/web"}},
		{[]string{"p"}, "suspend t/shop/web? y/N", "p", nil},
		{[]string{"end", "p"}, "resume t/zzz: done", "y", []string{"resume t/zzz"}},
	} {
		f := shopFleet()
		if slices.Contains(test.keys, "end") {
			f.data.nodes = append(f.data.nodes, status.Node{Path: "t/zzz", Kind: "agent", State: status.StateSuspended})
		}
		d := newTopTest(t, f, 80, 24)
		d.press(test.keys...)
		d.shows(test.question)
		d.press(test.then)
		if !slices.Equal(d.calls, test.want) {
			t.Errorf("%q, %s: %q, want %q", test.keys, test.then, d.calls, test.want)
		}
	}
	for _, width := range []int{20, 30, 80} {
		path := "t/" + strings.Repeat("name-", 10) + "web"
		nodes := append(shopFleet().data.nodes, status.Node{Path: path, Kind: "agent"},
			status.Node{Path: path + "2", Kind: "supervisor"})
		for _, p := range []string{path, path + "2", "t"} {
			got := confirmation(control.Stop, nodes, p, width)
			if !strings.HasSuffix(got, "? y/N") || width >= 40 && ansi.StringWidth(got) > width {
				t.Errorf("in %d columns: %s", width, got)
			}
		}
	}
}

// What needs a person is counted first, once, and also fits on a narrow screen.
func TestTopHeadline(t *testing.T) {
	t.Parallel()
	const problems = "needs you: 2 questions, 1 given up, 1 rejected, 1 parked task, 3 messages"
	for want, change := range map[string]func(d *snapshot){
		"t  3 running  1 stopped  up 1m30s": func(*snapshot) {},
		"t  " + problems + "  3 running  up 1m30s": func(d *snapshot) {
			d.nodes[5].State = "given_up"
			d.status.NeedsInput, d.status.Inbox = 1, status.Inbox{Questions: 2, Parked: 1, Mail: 3}
			d.status.Attention = []status.Attention{
				{Path: "coppice.toml", State: status.Rejected}, {Path: "t/api", State: status.NeedsAnswer},
				{Path: "t/fla", State: "given_up"},
			}
		},
		"t  needs you: 1 unresponsive  2 running  1 stopped  up 1m30s": func(d *snapshot) {
			d.status.Attention = []status.Attention{{Path: "t/api", State: "unresponsive"}}
		},
		"t  needs you: project suspended, store takes no writes  3 running  1 stopped  up 1m30s": func(d *snapshot) {
			d.status.Suspended, d.status.Store.Error = "by hand", "disk full"
		},
	} {
		f := shopFleet()
		change(&f.data)
		if got := newTopTest(t, f, 200, 24).m.lines()[0]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		got, _, narrow := strings.Cut(newTopTest(t, f, 24, 24).m.lines()[0], "…")
		if !narrow || !strings.HasPrefix(want, got) {
			t.Errorf("%q, want the beginning of %q", got, want)
		}
	}
}

func TestTopFilter(t *testing.T) {
	t.Parallel()
	d := newTopTest(t, shopFleet(), 80, 24)
	// Letters are text, whatever they do elsewhere.
	d.press("/", "f", "l", "a")
	d.shows("/fla", "2 of 6", "> shop/flaky", "  fla ")
	if d.calls != nil || d.m.selected != "t/shop/flaky" || d.followed != "t/shop/flaky" {
		t.Errorf("%q, %s is selected, %s followed", d.calls, d.m.selected, d.followed)
	}
	for _, letter := range []string{"s", "q", "r", "S", "?", "o", "j", "y", "G", "w"} {
		if d.press(letter) || d.m.pending != nil || d.m.screen != showList || d.m.order != byTree {
			t.Errorf("%s is a command while one types", letter)
		}
	}
	d.shows("nothing matches")
	d.press("s", "enter", "s", "a", "enter") // nothing is selected
	if d.calls != nil || d.m.pending != nil {
		t.Errorf("%q", d.calls)
	}
	d.press("esc")
	d.shows("├─ shop (one_for_all)")
	d.press("/", "f", "l", "a", "down", "enter")
	if d.m.selected != "t/fla" {
		t.Errorf("%s is selected", d.m.selected)
	}
	d.press("s")
	d.shows("stop t/fla? y/N")
	d.press("n", "/", "backspace")
	d.shows("/fl\x1b[7m")
	d.press("ü", "backspace", " ", "n", "o", "ctrl+w")
	d.shows("/fl \x1b[7m")
	d.press("ctrl+w")
	d.shows("/\x1b[7m")
	d.press("backspace", "a", "b", "ctrl+u")
	d.m.Update(tea.PasteMsg{Content: "f\tl\x1b[31m\n"})
	d.shows("/fl[31m\x1b[7m")
	d.press("esc", "/", "S", "T", "O", "P")
	d.shows("> fla  ", "1 of 6")
	d.press("esc", "/", "x")
	d.shows("nothing matches")
	d.press("backspace")
	if d.m.selected != "t/shop/web" || len(d.m.rows) != 6 { // the root is not selected
		t.Errorf("%s of %d is selected", d.m.selected, len(d.m.rows))
	}
}

func TestTopSort(t *testing.T) {
	t.Parallel()
	d := newTopTest(t, shopFleet(), 80, 24)
	for _, test := range []struct{ column, want string }{
		{"NAME▼", "t/api t/fla t/shop/flaky t/shop/web"},
		{"STATE▼", "t/fla t/shop/web t/shop/flaky t/api"},
		{"CPU▼", "t/shop/flaky t/api t/shop/web t/fla"},
		{"MEM▼", "t/api t/shop/flaky t/shop/web t/fla"},
		{"STARTS▼", "t/shop/flaky t/shop/web t/api t/fla"},
		{"UPTIME▼", "t/shop/flaky t/shop/web t/api t/fla"},
		{"NAME ", "t t/shop t/shop/web t/shop/flaky t/api t/fla"},
	} {
		d.press("o")
		d.shows(test.column)
		var got []string
		for _, n := range d.m.rows {
			got = append(got, n.Path)
		}
		if strings.Join(got, " ") != test.want || d.m.selected != "t/shop/web" {
			t.Errorf("%s: %q, %s is selected", test.column, got, d.m.selected)
		}
	}
}

// The selection stays on its node, and near its row when the node is gone.
func TestTopMoves(t *testing.T) {
	t.Parallel()
	f := shopFleet()
	for i := range 40 {
		f.data.nodes = append(f.data.nodes, status.Node{Path: fmt.Sprintf("t/z%02d", i), Kind: "agent",
			State: status.StateRunning})
	}
	d := newTopTest(t, f, 80, 24)
	for _, test := range []struct{ keys, want string }{
		{"end", "t/z39"}, {"up", "t/z38"}, {"k", "t/z37"}, {"pgup", "t/z25"}, {"pgdown", "t/z37"}, {"pgdown", "t/z39"},
		{"home", "t"},
		{"j", "t/shop"}, {"G", "t/z39"}, {"g", "t"}, {"up", "t"}, {"down", "t/shop"},
	} {
		d.press(test.keys)
		if d.m.selected != test.want {
			t.Errorf("%s: %s is selected, want %s", test.keys, d.m.selected, test.want)
		}
		d.shows("\n> ")
	}
	d.press("end")
	f.data.nodes = f.data.nodes[:10]
	d.m.Update(snapshotMsg{snapshot: f.data})
	if d.m.selected != "t/z03" {
		t.Errorf("%s is selected", d.m.selected)
	}
}

// A note expires; an error never does, but leaves the keys visible.
func TestTopNotes(t *testing.T) {
	t.Parallel()
	f := shopFleet()
	d := newTopTest(t, f, 80, 24)
	keys := "? help  q quit  Enter open"
	d.shows(keys)
	f.fails = errors.New("it will\nnot")
	d.press("S")
	d.shows("it will; not")
	d.press("down")
	d.shows(keys)
	d.press("S")
	old := d.m.noteID
	d.press("S")
	d.m.Update(noteExpiredMsg(old)) // of the previous note
	d.shows("it will; not")
	d.m.Update(noteExpiredMsg(d.m.noteID))
	d.shows(keys)
	d.m.Update(snapshotMsg{err: errors.New("no daemon is running")})
	d.shows("no daemon is running", keys, "t/shop/flaky")
	d.m.Update(snapshotMsg{snapshot: f.data})
	if strings.Contains(d.screen(), "no daemon") {
		t.Error(d.screen())
	}
	d.press("a")
	d.shows("has no terminal")
	f.data.nodes[3].Terminal = true
	d.m.Update(snapshotMsg{snapshot: f.data})
	d.press("a")
	if !slices.Contains(d.calls, "attach t/shop/flaky") {
		t.Errorf("%q", d.calls)
	}
}

func TestTopLog(t *testing.T) {
	t.Parallel()
	f := shopFleet()
	for i := range 100 {
		f.text["t/shop/web"] = append(f.text["t/shop/web"], fmt.Sprintf("line %d", i))
	}
	f.text["t/shop/flaky"] = []string{"a line that is much too long for forty columns, and ends here"}
	d := newTopTest(t, f, 40, 12)
	d.shows("line 99")
	d.press("enter")
	d.shows("── t/shop/web ──", "line 99", "line 90", "Esc back")
	d.press("pgup")
	d.shows("line 80", "line 89", "0 new below")
	f.text["t/shop/web"] = append(f.text["t/shop/web"], "one more")
	d.press("up")
	d.shows("line 79", "line 88", "1 new below")
	d.press("home")
	d.shows("line 0\n")
	d.press("end")
	d.shows("one more")
	f.text["t/shop/web"] = append(f.text["t/shop/web"], "and another")
	d.press() // it follows the output
	d.shows("and another")
	d.press("s") // does nothing here
	d.press("?")
	d.shows("── keys ──")
	d.press("esc")
	if d.press("q"); d.m.screen != showList || d.calls != nil || d.m.pending != nil {
		t.Errorf("screen %d, %q", d.m.screen, d.calls)
	}
	d.press("down")
	d.shows("a line that is much too long for forty c\nolumns, and ends here")
	d.press("w")
	d.shows("a line that is much too long for forty …")
	d.press("enter", "right", "right", "right")
	d.shows("and ends here")
	d.press("w")
	d.shows("a line that is much too long for forty c\nolumns, and ends here")
	d.press("esc", "home", "enter")
	d.shows("is a supervisor")
	if quit := d.press("q"); !quit {
		t.Error("q does not quit")
	}
}

// At any size, no line is too wide, no screen too high, and the keys are shown.
func TestTopSizes(t *testing.T) {
	t.Parallel()
	f := shopFleet()
	long := "t/shop/" + strings.Repeat("long-", 9) + "agent" // 50 letters
	at := time.Now().Add(5 * time.Minute)
	f.data.nodes = append(f.data.nodes[:4:4], append([]status.Node{
		{Path: long, Kind: "agent", State: status.StateRunning, Incarnation: 12, Restarts: 345, Uptime: 3600,
			LimitMax: 400, InWindow: 345, LimitCounts: "starts"},
		{Path: long + "2", Kind: "agent", State: "restarting", Incarnation: 1, NextAt: &at,
			LastExit: "exit code 7", Failed: true},
		{Path: "t/日本語\u202e\x1b[2J" + strings.Repeat("語", 20), Kind: "agent", State: status.StateRunning, Uptime: 1},
	}, f.data.nodes[4:]...)...)
	hostile := "\x1b[2J\x1b]52;c;eA==\x07hostile\u009b2J\u202e\xff " + strings.Repeat("x語", 300)
	f.text["t/shop/web"] = []string{displayLine(hostile), displayLine("1%\r2%")}
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 50}, {40, 10}, {20, 4}, {20, 5}, {1, 1}, {3, 2}, {0, 0}} {
		d := newTopTest(t, f, size[0], size[1])
		for _, keys := range [][]string{
			{}, {"enter"}, {"?"}, {"esc", "esc"}, {"s"}, {"n", "o", "o"}, {"w"}, {"/", "s"}, {"esc", "end"},
		} {
			d.press(keys...)
			lines := d.m.lines()
			if size[1] > 0 && len(lines) > size[1] {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, line := range lines {
				wide := size[0] > 0 && ansi.StringWidth(line) > size[0]
				if wide || strings.ContainsAny(ansi.Strip(line), "\x1b\x07\r\n\u202e\u009b") {
					t.Errorf("%v %q: %q", size, keys, line)
				}
			}
		}
	}
	d := newTopTest(t, f, 80, 24)
	d.shows("STARTS", "UPTIME", "345", "1h00m", "long-lo…g-agent", "-agent2", "in ", "2%")
	d = newTopTest(t, f, 20, 4)
	d.shows("> ", "? help")
}

// The help names each key, no key has two meanings, and the bindings match the help.
func TestTopKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	symbols := map[string]string{
		"↑": "up", "↓": "down", "←": "left", "→": "right", "PgUp": "pgup", "PgDn": "pgdown",
		"Home": "home", "End": "end", "Enter": "enter", "Esc": "esc", "Space": "space", "Tab": "tab",
		"F4": "f4", "F6": "f6", "F7": "f7", "F9": "f9", "F10": "f10", "Ctrl-R": "ctrl+r",
	}
	for _, k := range newTopKeys().all() {
		for _, name := range k.Keys() {
			if other, ok := seen[name]; ok && name != "l" { // which is right in a log, and opens one elsewhere
				t.Errorf("%s is both %q and %q", name, other, k.Help().Desc)
			}
			seen[name] = k.Help().Desc
		}
		for symbol := range strings.FieldsSeq(k.Help().Key) {
			name := symbol
			if n, ok := symbols[symbol]; ok {
				name = n
			}
			if !slices.Contains(k.Keys(), name) {
				t.Errorf("%s is said to be %q, which is %q", symbol, k.Help().Desc, k.Keys())
			}
		}
	}
	if all := slices.Collect(maps.Keys(seen)); len(all) < 20 {
		t.Error(all)
	}
	d := newTopTest(t, shopFleet(), 80, 50)
	d.press("?")
	for _, k := range newTopKeys().all() {
		d.shows(k.Help().Key, k.Help().Desc)
	}
	var none key.Binding
	if got := shortHelp([]key.Binding{none}, 20); got != "" {
		t.Errorf("%q", got)
	}
}

// The docs page and the help of the command list exactly the existing keys.
func TestTopKeysDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/top.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	rows := func(title string) (keys []string) {
		_, section, _ := strings.Cut(page, "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "| `") {
				keys = append(keys, strings.TrimSpace(strings.ReplaceAll(line, "`", "")))
			}
		}
		return keys
	}
	for title, bindings := range map[string][]key.Binding{
		"Keys of top": newTopKeys().all(), "Keys of run": newRunKeys().all(),
	} {
		var want []string
		for _, b := range bindings {
			want = append(want, fmt.Sprintf("| %s | %s |", b.Help().Key, b.Help().Desc))
		}
		if d := cmp.Diff(want, rows(title)); d != "" {
			t.Errorf("%s (-bound +docs):\n%s", title, d)
		}
	}
	long := New(&command.Streams{}).Long
	for _, line := range helpLines(newTopKeys().all()) {
		if !strings.Contains(long, line) {
			t.Errorf("no %q in:\n%s", line, long)
		}
	}
	for line := range strings.Lines(long) {
		if ansi.StringWidth(strings.TrimSpace(line)) > 100 {
			t.Error(line)
		}
	}
}

// The daemon is told that a person looks when a key was pressed, every 20 s at most, and not while top is only open.
func TestTopSeen(t *testing.T) {
	t.Parallel()
	f := shopFleet()
	d := newTopTest(t, f, 80, 24)
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		key   string
		want  bool
	}{
		{0, "", false}, {0, "down", true}, {time.Second, "up", false}, {18 * time.Second, "", false},
		{time.Second, "", true}, {time.Hour, "", false}, {0, "down", true},
	} {
		now = now.Add(step.after)
		if step.key != "" {
			d.press(step.key)
		}
		f.calls = nil
		if cmd := d.m.seen(now); cmd != nil {
			cmd()
		}
		if got := slices.Equal(f.calls, []string{"seen"}); got != step.want {
			t.Errorf("%+v: %q", step, f.calls)
		}
	}
}
