package look

import (
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
)

// An explanation says on which nodes an agent may run, without what a terminal would interpret.
func TestExplainPlacement(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]spec.Placement{
		"place  only on node a": {Node: "a"},
		"place  only on nodes with zone=eu; at most 3 on each node": {Labels: map[string]string{"zone": "eu"}, MaxPerNode: 3},
		"place  only on node ": {Node: "\x1b[31m"},
	} {
		x := status.Explanation{Node: status.Node{Path: "t/a", Kind: "agent", State: "running", Placement: &p}}
		if lines := ExplainLines(x, x.Since(), terminal.NewPaint(false)); !slices.Contains(lines, want) {
			t.Errorf("%q, want %q", lines, want)
		}
	}
}
