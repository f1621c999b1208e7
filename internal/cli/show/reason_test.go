package show

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/status"
)

// A running agent in a crash loop is explained by its last exit. Since does not claim that the loop
// began only then.
func TestReasonOfCrashLoop(t *testing.T) {
	t.Parallel()
	now := time.Now()
	n := status.Node{Kind: "agent", State: status.StateRunning, Loop: status.CrashLoop, Reason: "it always restarts", LastExit: "exit code 3", Failed: true}
	if got := ReasonColumn().Text(0, n, now); got != "its last exit: exit code 3" {
		t.Errorf("REASON: %q", got)
	}
	if got := nextText(n, now); got != "its last exit: exit code 3" {
		t.Errorf("NEXT: %q", got)
	}
	n.State = "restarting"
	x := status.Explanation{Node: n, History: []event.Event{{Time: now}}}
	if at := x.Since(); !at.IsZero() {
		t.Errorf("in a crash loop since %v", at)
	}
}
