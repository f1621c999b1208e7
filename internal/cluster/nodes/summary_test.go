package nodes

import (
	"reflect"
	"testing"

	"github.com/coppice-dev/coppice/internal/cluster/registry"
)

func TestSummarize(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"zone": "eu"}
	got := summarize([]registry.Node{
		{Name: "a", Epoch: 1, Info: registry.Info{Files: "1"}}, {Name: "b", Epoch: 2, Draining: true, Info: registry.Info{Capacity: 9, Labels: labels}},
		{Name: "c", Epoch: 3, Draining: true, Info: registry.Info{Files: "2"}},
		{Name: "d", Info: registry.Info{Files: "2"}}, {Name: "e", Epoch: 4, Info: registry.Info{Files: "2"}},
		{Name: "f", Epoch: 5, Info: registry.Info{Files: "1"}},
	}, map[string]int{"a": 3, "c": 1, "gone": 7}, func(node string) bool { return node != "c" }, "a")
	want := []Summary{
		{Name: "a", State: Ready, Controller: true, Agents: 3},
		{Name: "b", State: Draining, Capacity: 9, Labels: labels},
		{Name: "c", State: Lost, Agents: 1},
		{Name: "d", State: Joined},
		{Name: "e", State: Ready, OtherFiles: true},
		{Name: "f", State: Ready},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if all := Known(nil); all != nil {
		t.Errorf("without a fleet: %+v", all)
	}
}
