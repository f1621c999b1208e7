package status

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

func TestStarts(t *testing.T) {
	no := supervisor.Limit{Max: supervisor.Unlimited, Scope: supervisor.ScopeChild}
	for _, test := range []struct {
		limit   supervisor.Limit
		counted int
		change  func(*Node)
		want    string
	}{
		{supervisor.Quarantining(20, time.Hour), 3, nil, "3/20 starts in 1h"},
		{supervisor.Quarantining(20, 90*time.Minute), 0, nil, "0/20 starts in 1h30m"},
		{supervisor.Escalating(5, time.Minute), 2, nil, "2/5 restarts in 1m"},
		{supervisor.Escalating(5, 90*time.Second), 2, nil, "2/5 restarts in 1m30s"},
		{supervisor.Pausing(3, 10*time.Second), 1, nil, "1/3 failures in 10s"},
		{supervisor.GivingUp(10), 4, nil, "4/10 restarts in a row"},
		{no, 0, nil, "no limit"},
		{supervisor.Quarantining(20, time.Hour), 1, func(n *Node) { n.Restart = "never" }, "-"},
		{no, 0, func(n *Node) { n.Limit = "" }, "-"},
		{no, 0, func(n *Node) { n.Limit, n.LimitOf = "", "t/group" }, "shared"},
	} {
		n := Node{Kind: "agent", Restart: "always"}
		n.SetLimit(test.limit, test.counted)
		if test.change != nil {
			test.change(&n)
		}
		if got := n.Starts(); got != test.want {
			t.Errorf("%v: got %q, want %q", test.limit, got, test.want)
		}
	}
}
