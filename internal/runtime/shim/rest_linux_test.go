package shim

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/supervisor"
)

// A shim that is terminated also gives the processes of its agent's shell the grace period.
func TestTerminatedShimAwaitsTheRest(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "saved")
	l := sh("app/a", 1, `sh -c 'trap "sleep 0.3; echo > '"$1"'; exit 0" TERM; echo pid $$; while :; do sleep 0.05; done'; :`)
	l.Argv, l.Grace = append(l.Argv, saved), 2*testTimeout
	s := start(t, open(t, slotsDir(t)), l)
	member := pids(t, s, 1)
	shim := shimOf(s)
	shim.Signal(syscall.SIGTERM)
	wait(t, "the end", s.Done())
	if e := s.Exit(); e.Kind != supervisor.ShutDown {
		t.Errorf("exit = %v, want that of the shell", e)
	}
	if _, err := os.Stat(saved); err != nil {
		t.Errorf("killed while it saved its work: %v", err)
	}
	allGone(t, member)
	if err := shim.AwaitDeath(ctxOf(t)); err != nil {
		t.Errorf("the shim: %v", err)
	}
}
