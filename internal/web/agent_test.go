package web

import (
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
)

// The page of an agent says on which nodes it may run, if not on any.
func TestPlacementShown(t *testing.T) {
	n := status.Node{Path: "t/a", Kind: "agent", State: "running"}
	isPlacement := func(f fact) bool { return f.Name == "Placement" }
	if e := explain(status.Explanation{Node: n}, operator); slices.ContainsFunc(e.Facts, isPlacement) {
		t.Error(e.Facts)
	}
	n.Placement = &spec.Placement{Labels: map[string]string{"zone": "eu"}, MaxPerNode: 3}
	e := explain(status.Explanation{Node: n}, operator)
	want := fact{"Placement", "only on nodes with zone=eu; at most 3 on each node"}
	if i := slices.IndexFunc(e.Facts, isPlacement); i < 0 || e.Facts[i] != want {
		t.Errorf("%v, want %v", e.Facts, want)
	}
}
