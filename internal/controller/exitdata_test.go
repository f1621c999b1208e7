package controller

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/supervisor"
)

// The event of an exit whose program was gone has the last output of the agent, not what its shell
// wrote when that was killed.
func TestProgramGoneExit(t *testing.T) {
	x := supervisor.Exit{Kind: supervisor.Failure, Err: &agent.UnhealthyError{Reason: &health.ProgramGoneError{Names: []string{"claude"}, Output: []string{"last words"}}}}
	end := agent.EventEnd(x)
	if out := end.LastOutput; len(out) != 1 || out[0] != "last words" {
		t.Errorf("%+v", end)
	}
	if !strings.HasPrefix(x.String(), "none of its processes is claude, while") {
		t.Errorf("%v", x)
	}
}
