package status

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/supervisor"
)

// TestEndings checks that a node is shown as the events told that it ended, and as it was
// where they told nothing.
func TestEndings(t *testing.T) {
	var ends Endings
	header := supervisor.EventHeader{Supervisor: "t", ID: "a", Incarnation: 1}
	failure := supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("exit code 7")}
	ends.Observe(supervisor.ChildStarted{EventHeader: header})
	ends.Observe(supervisor.ChildExited{EventHeader: header, Exit: failure,
		Decision: supervisor.Decision{Action: supervisor.RestartIt, Reason: supervisor.ReasonPermanent}})
	header.Incarnation = 2
	ends.Observe(supervisor.ChildExited{EventHeader: header, Exit: failure,
		Decision: supervisor.Decision{Reason: supervisor.ReasonTemporary}})
	limited := Node{Path: "t/a", State: "running", Incarnation: 1, LimitMax: 5, LimitCounts: "starts", InWindow: 1}
	for _, test := range []struct{ before, expected Node }{
		{limited, Node{
			Path: "t/a", State: "stopped", Reason: supervisor.ReasonTemporary.String(), Incarnation: 2, Restarts: 1,
			LimitMax: 5, LimitCounts: "starts", InWindow: 2,
			LastExit: "exit code 7", ExitKind: "failure", ExitError: "exit code 7", Failed: true,
		}},
		{Node{Path: "t/b", State: "running", LastExit: "normal"}, Node{Path: "t/b", State: "stopped", LastExit: "normal"}},
	} {
		n := test.before
		ends.Complete(&n)
		if diff := cmp.Diff(test.expected, n); diff != "" {
			t.Errorf("%s (-want +got)\n%s", n.Path, diff)
		}
	}
	nodes := []Node{{Path: "t/a", State: "stopped", LimitMax: supervisor.Unlimited}}
	if KeepLimits(nodes, []Node{limited}); nodes[0].LimitMax != 5 || nodes[0].InWindow != 1 {
		t.Errorf("the limit is lost: %+v", nodes[0])
	}
}
