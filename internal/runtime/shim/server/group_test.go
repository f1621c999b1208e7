package server

import (
	"errors"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestOutOfMemory(t *testing.T) {
	killed := &proc.ExitError{Code: -1, Signal: syscall.SIGKILL}
	for _, c := range []struct {
		name string
		exit supervisor.Exit
		want string
	}{
		{"killed", supervisor.Exit{Kind: supervisor.Killed, Err: killed}, "out of memory, limit 512 MiB: ended by SIGKILL"},
		{"has lost a child and failed for that", supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 1}}, "exit code 1"},
		{"asked for", supervisor.Exit{Kind: supervisor.Killed, Err: supervisor.ErrKilled}, supervisor.ErrKilled.Error()},
	} {
		got := outOfMemory(c.exit, 512<<20)
		if got.Kind != c.exit.Kind || got.Err.Error() != c.want || !errors.Is(got.Err, c.exit.Err) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if got := (*agentGroup)(nil).explainExit(supervisor.Exit{}); got.Err != nil {
		t.Errorf("clean exit: %v", got)
	}
}
