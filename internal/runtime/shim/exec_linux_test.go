package shim

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/supervisor"
)

// A program that cannot be opened for a long time, here because of a lease, holds up the start of its
// own agent only.
func TestProgramThatHangs(t *testing.T) {
	t.Parallel()
	r := open(t, slotsDir(t))
	a := sleepers(t, r, "app/a")[0]
	file := filepath.Join(t.TempDir(), "program")
	exectest.Write(t, file, "#!/bin/sh\nexec sleep 1000\n")
	lease, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	wanted := make(chan os.Signal, 1)
	signal.Notify(wanted, syscall.SIGIO)
	defer signal.Stop(wanted)
	if _, err := unix.FcntlInt(lease.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("there are no leases here: ", err)
	}
	started := make(chan error, 1)
	go func() {
		l := sh("app/b", 1, "")
		l.Argv = []string{file}
		_, err := r.Start(ctxOf(t), l)
		started <- err
	}()
	<-wanted
	a.Kill()
	wait(t, "the end of the other agent", a.Done())
	if e := a.Exit(); e.Kind != supervisor.Killed {
		t.Errorf("exit = %v, want that it was killed", e)
	}
	mustStart := sleepers(t, r, "app/c")
	if _, err := unix.FcntlInt(lease.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Error(err)
	}
	if err := <-started; err != nil {
		t.Errorf("start: %v", err)
	}
	mustRun(t, mustStart[0])
	if b := adopt(t, r, "app/b"); shimOf(b) != shimOf(a) {
		t.Error("the agents had different shims")
	}
}
