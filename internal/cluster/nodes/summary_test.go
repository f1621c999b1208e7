package nodes

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/cluster/registry"
)

func TestSummarize(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"zone": "eu"}
	got := summarize([]registry.Node{
		{Name: "a", Epoch: 1, Info: registry.Info{Files: "1"}},
		{Name: "b", Epoch: 2, Draining: true, Info: registry.Info{Capacity: 9, Labels: labels}},
		{Name: "c", Epoch: 3, Draining: true, Info: registry.Info{Files: "2"}},
		{Name: "d", Info: registry.Info{Files: "2"}}, {Name: "e", Epoch: 4, Info: registry.Info{Files: "2"}},
		{Name: "f", Epoch: 5, Info: registry.Info{Files: "1"}}, {Name: "g", Epoch: 6, Ends: true},
	}, map[string]int{"a": 3, "c": 1, "gone": 7}, func(node string) bool { return node != "c" }, "a")
	want := []Summary{
		{Name: "a", State: Ready, Controller: true, Agents: 3},
		{Name: "b", State: Draining, Capacity: 9, Labels: labels},
		{Name: "c", State: Lost, Agents: 1},
		{Name: "d", State: Joined},
		{Name: "e", State: Ready, OtherFiles: true},
		{Name: "f", State: Ready},
		{Name: "g", State: Lost},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if all := Known(nil); all != nil {
		t.Errorf("without a fleet: %+v", all)
	}
}

func TestNoTaker(t *testing.T) {
	t.Parallel()
	self := Summary{Name: "a", State: Ready, Agents: 9}
	var many []Summary
	for range 7 {
		many = append(many, Summary{Name: "n", State: Lost})
	}
	for _, tt := range []struct {
		others []Summary
		want   string
	}{
		{nil, "the fleet has no other node"},
		{[]Summary{{Name: "b", State: Ready}}, ""},
		{[]Summary{{Name: "b", State: Lost}, {Name: "c", State: Ready, Capacity: 2, Agents: 1}}, ""},
		{[]Summary{{Name: "b", State: Lost}, {Name: "c", State: Draining}, {Name: "d", State: Joined},
			{Name: "e", State: Ready, Capacity: 2, Agents: 2}},
			"no other node takes agents: b is lost, c is draining, d is joined, e is full (2/2 agents)"},
		{many, "no other node takes agents: " + strings.Repeat("n is lost, ", 5) + "and so on for 2 more"},
	} {
		if got := NoTaker(append([]Summary{self}, tt.others...), "a"); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.others, got, tt.want)
		}
	}
}
