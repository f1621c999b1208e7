package show

import (
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/status"
)

// Nodes of a fleet have a column if agents run on several.
func TestHostColumn(t *testing.T) {
	nodes := []status.Node{
		{Path: "t/s", Kind: "supervisor", Host: "n1"}, {Path: "t/a", Kind: "agent", Host: "n1"},
		{Path: "t/b", Kind: "agent", Host: "n1"},
	}
	if all := HostColumn(nodes); all != nil {
		t.Errorf("all are on one node: %v", all)
	}
	nodes[2].Host = "n2"
	all := HostColumn(nodes)
	if len(all) != 1 {
		t.Fatal(all)
	}
	var got []string
	for _, n := range nodes {
		got = append(got, all[0].Text(0, n, time.Time{}))
	}
	if want := []string{"-", "n1", "n2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
