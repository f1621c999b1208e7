package status

import (
	"errors"
	"testing"

	"github.com/coppice-dev/coppice/supervisor"
)

// An agent whose starts all end soon is in a loop, unless it waits for something outside of it.
func TestLoopOf(t *testing.T) {
	failed := supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")}
	normal := supervisor.Exit{Kind: supervisor.Normal}
	for _, tt := range []struct {
		info     supervisor.ChildInfo
		inRuns   bool
		expected Loop
	}{
		{supervisor.ChildInfo{State: supervisor.Restarting, ShortLived: LoopEnds, LastExit: failed}, false, CrashLoop},
		{supervisor.ChildInfo{State: supervisor.Restarting, ShortLived: LoopEnds, LastExit: normal}, false, CleanLoop},
		{supervisor.ChildInfo{State: supervisor.Restarting, ShortLived: LoopEnds, LastExit: normal}, true, ""},
		{supervisor.ChildInfo{State: supervisor.Restarting, ShortLived: LoopEnds - 1, LastExit: failed}, false, ""},
		{supervisor.ChildInfo{State: supervisor.GivenUp, ShortLived: LoopEnds, LastExit: failed}, false, ""},
		{supervisor.ChildInfo{State: supervisor.Restarting, Reason: supervisor.ReasonRetry, ShortLived: LoopEnds,
			LastExit: failed}, false, ""},
	} {
		if got := loopOf(tt.info, tt.inRuns); got != tt.expected {
			t.Errorf("%+v: %q, expected %q", tt.info, got, tt.expected)
		}
	}
}
