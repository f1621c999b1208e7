package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// sleepers starts agents that do nothing.
func sleepers(t *testing.T, r *Runtime, paths ...string) (all []*session) {
	t.Helper()
	for _, path := range paths {
		all = append(all, start(t, r, sh(path, 1, "exec sleep 1000")))
	}
	return all
}

// mustRun fails unless an agent runs, in the incarnation that was started.
func mustRun(t *testing.T, s *session) {
	t.Helper()
	if o := s.Observe(); o.Life != runtime.Alive || proc.Observe(s.state.Agent) != proc.Alive {
		t.Errorf("%s: %+v", s.slot.path, o)
	}
}

// The agents of a supervisor share shims, with a bound. Those of another one have others.
func TestAgentsShareShims(t *testing.T) {
	for most, want := range map[int]int{1: 5, 2: 3, 3: 3, 32: 2} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			r := openWith(t, Options{Dir: slotsDir(t), PerShim: most})
			shims := map[proc.Identity]string{}
			for _, s := range sleepers(t, r, "app/a", "app/b", "app/c", "app/d", "other/a") {
				key := filepath.Dir(s.slot.path)
				if at, ok := shims[shimOf(s)]; ok && at != key {
					t.Errorf("%s has the shim of %s", s.slot.path, at)
				}
				shims[shimOf(s)] = key
			}
			if len(shims) != want {
				t.Errorf("%d shims, want %d", len(shims), want)
			}
		})
	}
}

// A shim that is killed costs its agents, and no others.
func TestKilledShimCostsItsAgents(t *testing.T) {
	r := openWith(t, Options{Dir: slotsDir(t), PerShim: 2})
	all := sleepers(t, r, "app/a", "app/b", "app/c")
	shimOf(all[0]).Signal(syscall.SIGKILL)
	for _, s := range all[:2] {
		wait(t, "the end of "+s.slot.path, s.Done())
		if s.Exit().Kind != supervisor.Lost {
			t.Errorf("%s: %v", s.slot.path, s.Exit())
		}
	}
	mustRun(t, all[2])
	again := start(t, r, sh("app/a", 2, "exec sleep 1000"))
	if shim := shimOf(again); shim == shimOf(all[0]) || shim != shimOf(all[2]) {
		t.Errorf("it has shim %v; want that of another agent, %v", shim, shimOf(all[2]))
	}
}

// What an agent leaves behind ends with it, and what others have left stays, also without control
// groups: neither its parent, group and session nor its environment tells whose it is.
func TestOrphansInASharedShim(t *testing.T) {
	const leave = `env -i setsid sh -c '(sleep 1000; :) & echo "pid $$"; wait' &
(env -i setsid sh -c 'echo "pid $$"; while :; do sleep 1; done' &)
echo "pid $$"; while :; do sleep 1; done`
	for name, o := range map[string]Options{"with groups": {}, "without groups": {WithoutGroups: true}} {
		t.Run(name, func(t *testing.T) {
			o.Dir = slotsDir(t)
			r := openWith(t, o)
			if !o.WithoutGroups && r.groups.tree == nil {
				t.Skip(r.groups.why)
			}
			var all []*session
			var left [][]proc.Identity
			for _, path := range []string{"app/a", "app/b", "app/c"} {
				s := start(t, r, sh(path, 1, leave))
				all, left = append(all, s), append(left, pids(t, s, 3))
			}
			if shimOf(all[0]) != shimOf(all[2]) {
				t.Fatal("they have different shims")
			}
			for i, s := range all {
				s.Kill()
				wait(t, "the end", s.Done())
				allGone(t, left[i])
				for _, others := range left[i+1:] {
					for _, id := range others {
						if proc.Observe(id) != proc.Alive {
							t.Errorf("process %d of another agent has ended with %s", id.PID, s.slot.path)
						}
					}
				}
				for _, other := range all[i+1:] {
					mustRun(t, other)
				}
			}
		})
	}
}

// A shim leaves the slot of an agent that is removed, and still serves the others. The slot can be
// used again, and the shim ends with the last one.
func TestShimLeavesASlot(t *testing.T) {
	r := open(t, slotsDir(t))
	all := sleepers(t, r, "app/a", "app/b")
	shim := shimOf(all[0])
	for _, s := range all {
		s.Kill()
		wait(t, "the end", s.Done())
		if s == all[0] {
			if err := r.Remove(ctxOf(t), s.slot.path); err != nil {
				t.Fatal(err)
			}
			mustRun(t, all[1])
			again := start(t, r, sh("app/a", 1, "exec sleep 1000"))
			if shimOf(again) != shim {
				t.Error("it has another shim")
			}
			again.Kill()
			wait(t, "the end", again.Done())
			mustRun(t, all[1])
		}
	}
	for _, path := range []string{"app/a", "app/b"} {
		if err := r.Remove(ctxOf(t), path); err != nil {
			t.Fatal(err)
		}
	}
	if err := shim.AwaitDeath(ctxOf(t)); err != nil {
		t.Errorf("the shim has not ended: %v", err)
	}
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != wire.ShimLog {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// A slot that its shim has left for lack of work, while it serves others, is given to a shim again
// with all that is known of it.
func TestSlotIsLeftAndTaken(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	all := sleepers(t, r, "app/a", "app/b")
	all[0].Kill()
	wait(t, "the end", all[0].Done())
	if err := r.Quit(ctxOf(t)); err != nil { // as after some time
		t.Fatal(err)
	}
	mustRun(t, all[1])
	for _, r := range []*Runtime{r, open(t, dir)} {
		s := adopt(t, r, "app/a")
		if s.Exit().Kind != supervisor.Killed || s.Observe().Incarnation != 1 {
			t.Errorf("its last incarnation is %+v", s.Observe())
		}
		if locked, err := wire.Locked(s.slot.dir); err != nil || locked {
			t.Errorf("locked: %v, %v", locked, err)
		}
	}
	s := start(t, r, sh("app/a", 2, "exec sleep 1000"))
	if shimOf(s) != shimOf(all[1]) {
		t.Error("it has another shim")
	}
}

// One request makes a shim leave all slots without a running agent. It says whether others are left.
func TestShimLeavesIdleSlots(t *testing.T) {
	r := open(t, slotsDir(t))
	all := sleepers(t, r, "app/a", "app/b", "app/c")
	shim := shimOf(all[0])
	end := func(s *session) {
		t.Helper()
		s.Kill()
		wait(t, "the end", s.Done())
	}
	end(all[0])
	end(all[1])
	if idle := r.quitIdle(ctxOf(t)); len(idle) > 0 {
		t.Error("a shim with a running agent is idle")
	}
	mustRun(t, all[2])
	for _, s := range all[:2] {
		if locked, err := wire.Locked(s.slot.dir); err != nil || locked {
			t.Errorf("%s is locked: %v, %v", s.slot.path, locked, err)
		}
	}
	end(all[2])
	if idle := r.quitIdle(ctxOf(t)); len(idle) != 1 {
		t.Errorf("%d idle shims, want 1", len(idle))
	}
	if err := shim.AwaitDeath(ctxOf(t)); err != nil {
		t.Errorf("the shim has not ended: %v", err)
	}
}

// The next runtime gives slots to the shims of the last one.
func TestShimsOfEarlierRuntimes(t *testing.T) {
	dir := slotsDir(t)
	first := open(t, dir)
	a := sleepers(t, first, "app/a")[0]
	first.Close()
	second := open(t, dir)
	b := sleepers(t, second, "app/b")[0]
	if shimOf(b) != shimOf(a) {
		t.Errorf("it has shim %v, want %v", shimOf(b), shimOf(a))
	}
	mustRun(t, adopt(t, second, "app/a"))
}

// A shim that hangs gets no more slots.
func TestNoSlotForAShimThatHangs(t *testing.T) {
	r := open(t, slotsDir(t))
	a := sleepers(t, r, "app/a")[0]
	shimOf(a).Signal(syscall.SIGSTOP)
	defer shimOf(a).Signal(syscall.SIGCONT)
	awaitStopped(t, shimOf(a).PID)
	b := sleepers(t, r, "app/b")[0]
	if shimOf(b) == shimOf(a) {
		t.Error("it has the shim that hangs")
	}
}

// A kill of an agent whose shim is stopped costs the other agents of the shim nothing.
func TestKillBelowAStoppedShim(t *testing.T) {
	t.Parallel()
	r := open(t, slotsDir(t))
	all := sleepers(t, r, "app/a", "app/b")
	shim := shimOf(all[0])
	shim.Signal(syscall.SIGSTOP)
	awaitStopped(t, shim.PID)
	all[0].Kill()
	wait(t, "the end", all[0].Done())
	if e := all[0].Exit(); e.Kind != supervisor.Killed {
		t.Errorf("exit = %v, want that it was killed", e)
	}
	mustRun(t, all[1])
}

// Processes below a shared shim are told apart, also those that an agent has left behind, by a
// runtime that has started them and by one that only sees the slots.
func TestOwnersInASharedShim(t *testing.T) {
	dir := slotsDir(t)
	r := openWith(t, Options{Dir: dir, WithoutGroups: true})
	for _, path := range []string{"app/a", "app/b"} {
		s := start(t, r, sh(path, 1, `(env -i setsid sh -c 'echo "pid $$"; while :; do sleep 1; done' &)
echo "pid $$"; while :; do sleep 1; done`))
		for _, id := range pids(t, s, 2) {
			l, err := proc.LineageOf(id.PID)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*Runtime{r, openWith(t, Options{Dir: dir, WithoutGroups: true})} {
				if got, at := r.Owner(l); got != path || at != 1 {
					t.Errorf("process %d of %s belongs to %q at %d", id.PID, path, got, at)
				}
			}
		}
	}
}

// A slot that its shim is about to leave is listed with its end, as before and after that.
func TestSlotThatIsBeingLeft(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	sleepers(t, r, "app/other") // keeps the shim
	other := open(t, dir)
	for n := uint64(1); n <= 20; n++ {
		s := start(t, r, sh("app/a", n, "exec sleep 1000"))
		s.Kill()
		wait(t, "the end", s.Done())
		left := make(chan error, 1)
		go func() { left <- r.Quit(ctxOf(t)) }()
		for leaving := true; leaving; {
			select {
			case err := <-left:
				if err != nil {
					t.Error(err)
				}
				leaving = false
			default:
			}
			list, err := other.List(ctxOf(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range list {
				if o.Path == "app/a" && (o.Life != runtime.Dead || o.Incarnation != n) {
					t.Fatalf("while it is left: %+v", o)
				}
			}
		}
	}
}
