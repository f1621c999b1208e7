package show

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
)

func TestFleetNodes(t *testing.T) {
	t.Parallel()
	var many []nodes.Summary
	for i := range 14 {
		many = append(many, nodes.Summary{Name: fmt.Sprintf("n%02d", i), State: nodes.Ready, Controller: i == 12})
	}
	many[13].State = nodes.Lost
	want := []string{"14: 1 lost, 13 ready", "n13 lost", "n12 ready, controller"}
	for i := range 8 {
		want = append(want, fmt.Sprintf("n%02d ready", i))
	}
	for _, tt := range []struct {
		name  string
		nodes []nodes.Summary
		want  []string
	}{
		{"no fleet", nil, nil},
		{"three", []nodes.Summary{
			{Name: "a", State: nodes.Ready, Controller: true, Agents: 3},
			{Name: "b", State: nodes.Draining, Agents: 1, Labels: map[string]string{"zone": "eu", "gpu": ""}},
			{Name: "c", State: nodes.Lost, Capacity: 5},
			{Name: "d", State: nodes.Ready, OtherFiles: true},
		}, []string{"4: 1 draining, 1 lost, 2 ready", "a ready, controller, 3 agents",
			"b draining, 1 agent, gpu= zone=eu", "c lost, 0 of 5 agents", "d ready, other files"}},
		{"many", many, append(want, "and 4 more: coppice node ls")},
	} {
		if got := FleetNodes(tt.nodes, terminal.NewPaint(false)); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}
