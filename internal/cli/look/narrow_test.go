package look

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/status/statustest"
)

// On a narrow terminal a list keeps the state, the reason and the next start.
func TestNarrow(t *testing.T) {
	nodes, _ := statustest.Sample().Nodes(t.Context(), "")
	names := func(columns []show.Column) string {
		var all []string
		for _, c := range columns {
			all = append(all, c.Name)
		}
		return strings.Join(all, " ")
	}
	all := names(psColumns(nil))
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, all},
		{200, all},
		{116, all},
		{98, "PATH STATE INC STARTS UPTIME NEXT REASON"},
		{92, "PATH STATE STARTS UPTIME NEXT REASON"},
		{80, "PATH STATE UPTIME NEXT REASON"},
		{20, "PATH STATE UPTIME NEXT REASON"},
	} {
		columns := show.Narrow(nodes, psColumns(nil), test.width)
		if got := names(columns); got != test.want {
			t.Errorf("%d columns: %s, want %s", test.width, got, test.want)
		}
		for _, line := range show.NodeTable(nodes, columns, 0, test.width, terminal.NewPaint(false)) {
			if test.width > 0 && ansi.StringWidth(line) > test.width {
				t.Errorf("too wide for %d: %q", test.width, line)
			}
		}
	}
	pools := []status.Node{
		{Path: "t", Kind: "supervisor", State: "running"},
		{Path: "t/a", Kind: "agent", State: "stopped", Reason: strings.Repeat("so long ", 20)},
		{Path: "t/p", Kind: "supervisor", State: "running", Pool: &pool.Info{Size: 3, Max: 5}},
	}
	columns := append(psColumns(nil), show.StatusColumn(pools)...)
	lines := show.NodeTable(pools, show.Narrow(pools, columns, 80), 0, 80, terminal.NewPaint(false))
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "3 wanted") }) {
		t.Errorf("a long reason hides how the pool is:\n%s", strings.Join(lines, "\n"))
	}
	if names(show.Narrow(pools, columns, 80)) != "PATH STATE UPTIME REASON STATUS" {
		t.Errorf("what says nothing is shown:\n%s", strings.Join(lines, "\n"))
	}
	show.Narrow(nil, nil, 80)
}
