package shim

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// Nothing of an agent still runs when it is reported as lost, also if its slot was removed. A slot without its lock
// file counts as removed.
func TestShimOfARemovedSlotIsKilled(t *testing.T) {
	for name, c := range map[string]struct {
		Options
		lock  bool   // it alone is removed
		first uint64 // incarnation; those before have ended
	}{
		"with groups":               {first: 1},
		"without groups":            {Options: Options{WithoutGroups: true}, first: 1},
		"lock":                      {first: 1, lock: true},
		"lock, and an earlier exit": {first: 2, lock: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.Dir = slotsDir(t)
			r := openWith(t, c.Options)
			if c.first > 1 {
				wait(t, "the end", start(t, r, sh("app/a", 1, "exit 0")).Done())
			}
			s := start(t, r, sh("app/a", c.first, family))
			all := pids(t, s, 4)
			shim := shimOf(s)
			shim.Signal(syscall.SIGSTOP) // it would restore the slot when the connection of pids ends
			awaitStopped(t, shim.PID)
			if !c.lock {
				removeSlot(t, s.slot.dir)
			} else if err := os.Remove(filepath.Join(s.slot.dir, wire.LockFile)); err != nil {
				t.Fatal(err)
			}
			shim.Signal(syscall.SIGKILL)
			wait(t, "the end", s.Done())
			if s.Exit().Kind != supervisor.Lost {
				t.Errorf("exit = %v", s.Exit())
			}
			allGone(t, all)
			if _, err := os.Lstat(s.slot.dir); !c.lock && !wire.IsMissing(err) {
				t.Errorf("the slot is there again: %v", err)
			}
			r.Close()
			start(t, openWith(t, c.Options), sh("app/a", c.first+1, "exec sleep 1000"))
		})
	}
}

// A start changes nothing while the agent runs, also if its slot was removed.
func TestStartInARemovedSlot(t *testing.T) {
	r := open(t, slotsDir(t))
	all := sleepers(t, r, "app/a", "app/b")
	removeSlot(t, all[0].slot.dir)
	if _, err := r.Start(ctxOf(t), sh("app/a", 2, "exec sleep 1000")); !errors.Is(err, runtime.ErrBusy) {
		t.Errorf("start: %v", err)
	}
	mustRun(t, all[0])
	mustRun(t, all[1])
}

// A slot whose files were removed can be removed, while its shim serves others. It does not come back.
func TestRemovedSlotIsRemoved(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, dir string){
		"lock": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, wire.LockFile)); err != nil && !wire.IsMissing(err) {
				t.Fatal(err)
			}
		},
		"directory": removeSlot,
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, slotsDir(t))
			all := sleepers(t, r, "app/a", "app/b")
			dir := all[0].slot.dir
			remove(t, dir)
			if err := r.Remove(ctxOf(t), "app/a"); !errors.Is(err, runtime.ErrBusy) {
				t.Errorf("removed while its agent runs: %v", err)
			}
			all[0].Kill()
			wait(t, "the end", all[0].Done())
			remove(t, dir)
			if err := r.Remove(ctxOf(t), "app/a"); err != nil {
				t.Error(err)
			}
			h, err := r.host(ctxOf(t), wire.SocketName(shimOf(all[1]).PID))
			if err == nil {
				err = h.conn.ask(ctxOf(t), wire.Message{Type: wire.Wake})
			}
			if _, missing := os.Lstat(dir); err != nil || !wire.IsMissing(missing) {
				t.Errorf("the slot is there again: %v, %v", missing, err)
			}
			if r.serves(ctxOf(t), shimOf(all[1]), dir) || proc.Observe(shimOf(all[1])) != proc.Alive {
				t.Error("the shim serves the slot, or has ended")
			}
			mustRun(t, all[1])
		})
	}
}
