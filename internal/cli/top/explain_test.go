package top

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/status"
)

// The pane asks for the selected node only, and again when it has changed or after explainInterval.
func TestTopExplainAsks(t *testing.T) {
	t.Parallel()
	f := shopFleet()
	d := newTopTest(t, f, 80, 24)
	now := time.Now()
	wants := func(what string, want ...string) {
		t.Helper()
		if ask := d.m.ask(now); ask != nil {
			if d.m.ask(now) != nil {
				t.Errorf("%s: asks while a request is under way", what)
			}
			d.m.Update(ask())
		}
		if !slices.Equal(f.explained, want) {
			t.Errorf("%s: asked for %q, want %q", what, f.explained, want)
		}
		f.explained = nil
	}
	wants("the log is shown")
	d.m.Update(keyOf("d"))
	wants("explain is shown", "t/shop/web")
	wants("nothing changes")
	age := 7.0
	f.data.nodes[2].Vitals = &health.Info{Heartbeat: &age, ProgressAge: 7}
	d.m.Update(snapshotMsg{snapshot: f.data})
	wants("it has vitals", "t/shop/web")
	later := 8.0
	f.data.nodes[2].Uptime, f.data.nodes[2].Vitals = 61, &health.Info{Heartbeat: &later, ProgressAge: 8}
	d.m.Update(snapshotMsg{snapshot: f.data})
	wants("only time has passed")
	f.data.nodes[3].Restarts++
	d.m.Update(snapshotMsg{snapshot: f.data})
	wants("another one changes")
	f.data.nodes[2].State = status.StateStopped
	d.m.Update(snapshotMsg{snapshot: f.data})
	wants("it stops", "t/shop/web")
	now = now.Add(explainInterval)
	wants("it is old", "t/shop/web")
	d.m.Update(keyOf("down"))
	wants("another one is selected", "t/shop/flaky")
	d.m.Update(keyOf("?"))
	now = now.Add(explainInterval)
	wants("the help is shown")
	d.m.Update(keyOf("esc"))
	wants("it is shown again", "t/shop/flaky")
	d.m.Update(keyOf("l"))
	now = now.Add(explainInterval)
	wants("the log is shown again")
}

func TestTopExplain(t *testing.T) {
	t.Parallel()
	f := shopFleet()
	f.rule = "a rule that is \x1b[2Jlong enough for a second line on this screen"
	d := newTopTest(t, f, 40, 16)
	d.press("d")
	d.shows("── t/shop/web: explain ──", "t/shop/web is running")
	d.shows("why    a rule that is long enough for a", "       second line")
	f.rule = "another rule"
	d.press("down")
	d.shows("t/shop/flaky: explain", "another rule")
	d.press("g") // of supervisors, too
	d.shows("── t: explain ──", "another rule")
	d.press("enter")
	if d.m.screen != showPane {
		t.Fatal("Enter does not open it")
	}
	d.shows("── t: explain ──", "why    another rule", "Esc back")
	d.press("l") // the log of a supervisor
	d.shows("── t ──", "select an agent")
	d.press("tab", "?", "esc") // the help returns to where it was asked for
	d.shows("── t: explain ──")
	if d.m.screen != showPane {
		t.Error("the help returns to the list")
	}
	d.press("esc")
	d.shows("> t (one_for_one)")
	f.fails = errors.New("it\nfails")
	d.press("j")
	d.shows("it; fails")
	f.fails = nil
	for range 40 { // more lines than fit
		f.rule += " and a few words more"
	}
	d.press("j")
	d.press("enter", "end")
	if got := d.m.explain.view.YOffset(); got == 0 {
		t.Errorf("it is not scrolled:\n%s", d.screen())
	}
	f.data.nodes = slices.Delete(slices.Clone(f.data.nodes), 2, 3) // it goes, and the next one is selected
	d.m.Update(snapshotMsg{snapshot: f.data})
	d.press()
	d.shows("── t/shop/flaky: explain")
	if got := d.m.explain.view.YOffset(); got != 0 {
		t.Errorf("it begins at line %d", got)
	}
	d.press("end")
	d.press("q", "k")
	d.press("enter")
	if got := d.m.explain.view.YOffset(); got != 0 {
		t.Errorf("the next one begins at line %d", got)
	}
}
