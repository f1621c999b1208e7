package daemon

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/supervisor"
)

// The event of an exit whose program was gone has the last output of the agent, not what its shell
// wrote when that was killed.
func TestProgramGoneExit(t *testing.T) {
	x := supervisor.Exit{Kind: supervisor.Failure, Err: &unhealthyError{&health.ProgramGoneError{Names: []string{"claude"}, Output: []string{"last words"}}, nil}}
	end := endOf(x)
	if out := end.LastOutput; len(out) != 1 || out[0] != "last words" {
		t.Errorf("%+v", end)
	}
	if !strings.HasPrefix(x.String(), "none of its processes is claude any more") {
		t.Errorf("%v", x)
	}
}
