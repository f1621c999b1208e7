package cli

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
)

func TestIsUnwell(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		node api.Node
		want bool
	}{
		{"runs", api.Node{State: "running"}, false},
		{"keeps ending", api.Node{State: "running", Loop: "crashes"}, true},
		{"starts", api.Node{State: "starting"}, true},
		{"waits for its restart", api.Node{State: "restarting"}, true},
		{"is quarantined", api.Node{State: "quarantined"}, true},
		{"has done its work", api.Node{State: "stopped"}, false},
		{"has failed for good", api.Node{State: "stopped", Failed: true}, true},
		{"was stopped by hand", api.Node{State: "stopped", Failed: true, StoppedByHand: true}, false},
		{"is one too many in its pool", api.Node{State: "stopping", Reason: "its pool wants fewer instances"}, false},
		{"is suspended", api.Node{State: "suspended"}, false},
		{"waits for its trigger", api.Node{State: "waiting", Aide: &api.Aide{}}, false},
	} {
		if got := isUnwell(c.node); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
