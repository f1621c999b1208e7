package top

import (
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/status"
)

// visiblePaths returns the paths of the rows.
func (d *topTest) visiblePaths() string {
	paths := make([]string, len(d.m.rows))
	for i, n := range d.m.rows {
		paths[i] = n.Path
	}
	return strings.Join(paths, " ")
}

func TestTopCollapse(t *testing.T) {
	t.Parallel()
	f := shopFleet()
	// A name with the same beginning as that of a supervisor is not below it.
	f.data.nodes = slices.Insert(f.data.nodes, 4, status.Node{Path: "t/shop2", Kind: "agent", State: "stopped"})
	d := newTopTest(t, f, 80, 24)
	const all, closed = "t t/shop t/shop/web t/shop/flaky t/shop2 t/api t/fla", "t t/shop t/shop2 t/api t/fla"
	for _, step := range []struct{ key, rows, selected string }{
		{"space", closed, "t/shop"}, // the supervisor of the selected agent
		{"space", all, "t/shop"},
		{"space", closed, "t/shop"},
		{"down", closed, "t/shop2"},
		{"+", all, "t/shop2"},
		{"-", closed, "t/shop2"},
		{"=", all, "t/shop2"},
		{"up", all, "t/shop/flaky"},
		{"-", closed, "t/shop"}, // what is selected is hidden
		{"/", closed, "t/shop"},
		{"w", "t/shop/web", "t/shop/web"}, // a filter finds it
		{"esc", closed, "t/shop"},
		{"o", "t/api t/fla t/shop/flaky t/shop/web t/shop2", "t/fla"}, // and so does a list
		{"space", "t/api t/fla t/shop/flaky t/shop/web t/shop2", "t/fla"},
	} {
		d.press(step.key)
		if got := d.visiblePaths(); got != step.rows || d.m.selected != step.selected {
			t.Fatalf("%s: %s of %q, want %s of %q", step.key, d.m.selected, got, step.selected, step.rows)
		}
		if step.rows == closed && step.key != "/" {
			d.shows("shop (one_for_all) +2")
		}
	}
	d.shows("only a tree can be collapsed")
	f.data.nodes = f.data.nodes[:1]
	d.press("o", "o", "o", "o", "o", "o") // the tree again
	d.m.Update(snapshotMsg{snapshot: f.data})
	if d.press("space"); d.visiblePaths() != "t" || d.m.selected != "t" {
		t.Errorf("%q, %s is selected", d.visiblePaths(), d.m.selected)
	}
}
