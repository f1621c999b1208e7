package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// groupOf returns the control group of a process, below the mount.
func groupOf(t testing.TB, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(p)
		}
	}
	t.Fatalf("process %d has no control group:\n%s", pid, b)
	return ""
}

// hidden starts a grandchild that nothing leads back to: it has left the session, its parents
// have ended, its environment and descriptors are empty, and it ignores signals. It writes its
// pid to the file.
func hidden(file string) string {
	return `export PID_FILE="` + file + `"
setsid sh -c 'setsid env -i sh -c "
	exec <&- >&- 2>&-
	trap \"\" TERM HUP INT
	echo \$\$ > \"\$1.tmp\"; mv \"\$1.tmp\" \"\$1\"
	while :; do sleep 1; done" sh "$PID_FILE" &' &
while ! [ -e "$PID_FILE" ]; do sleep 0.01; done
echo "pid $(cat "$PID_FILE")"
echo "pid $$"
while :; do sleep 1; done`
}

// A process that is hidden in every other way is found by its control group, whichever process
// was killed and whichever process searches.
func TestHiddenDescendantOfAKilledShim(t *testing.T) {
	for _, c := range []struct {
		name    string
		watched bool
		damage  bool // of the state file
	}{
		{"watched", true, false},
		{"found by the next daemon", false, false},
		{"found without a state", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := slotsDir(t)
			r := openGroups(t, dir)
			s := start(t, r, sh("app/a", 1, hidden(filepath.Join(t.TempDir(), "pid"))))
			ids := pids(t, s, 2)
			if !c.watched {
				r.Close()
			}
			shim := shimOf(s)
			if err := shim.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if !c.watched {
				if err := shim.AwaitDeath(ctxOf(t)); err != nil {
					t.Fatal(err)
				}
				if proc.Observe(ids[0]) != proc.Alive {
					t.Error("it is not hidden: it has died on its own")
				}
				if c.damage {
					if err := os.WriteFile(filepath.Join(s.slot.dir, wire.LockFile), []byte("?"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				r = openGroups(t, dir)
				s = adopt(t, r, "app/a")
			}
			wait(t, "the end", s.Done())
			allGone(t, ids)
			if e := s.Exit(); e.Kind != supervisor.Lost {
				t.Errorf("exit = %v, want lost", e)
			}
			if _, err := os.Lstat(s.slot.group.Dir()); !os.IsNotExist(err) {
				t.Errorf("the group is still there: %v", err)
			}
			start(t, r, sh("app/a", 2, "exec sleep 1000"))
		})
	}
}

// Agents are in the group of their slot, one after the other, and shims are not.
func TestPlaceOfAgents(t *testing.T) {
	dir := slotsDir(t)
	r := openGroups(t, dir)
	own := groupOf(t, os.Getpid())
	var group string
	for n := uint64(1); n <= 3; n++ {
		s := start(t, r, sh("app/../ä\n x", n, "exec sleep 1000"))
		if got := groupOf(t, s.Observe().PID); filepath.Base(got) != wire.GroupName(s.slot.dir) {
			t.Errorf("the agent is in %s", got)
		}
		if got := groupOf(t, shimOf(s).PID); got != own {
			t.Errorf("the shim is in %s", got)
		}
		s.Kill()
		wait(t, "the end", s.Done())
		group = s.slot.group.Dir()
		s.mu.Lock()
		if s.state.Group != group {
			t.Errorf("the state names the group %q", s.state.Group)
		}
		s.mu.Unlock()
	}
	if err := r.Remove(ctxOf(t), "app/../ä\n x"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(group); !os.IsNotExist(err) {
		t.Errorf("the group is still there: %v", err)
	}
}

// An agent that freezes itself does not keep its successor from starting.
func TestFrozenGroup(t *testing.T) {
	r := openGroups(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
	if err := os.WriteFile(filepath.Join(s.slot.group.Dir(), "cgroup.freeze"), []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Kill()
	wait(t, "the end", s.Done())
	start(t, r, sh("app/a", 2, "exec sleep 1000"))
}

// A group that was removed is created again, and one that cannot be used keeps no agent from
// running.
func TestGroupIsGone(t *testing.T) {
	r := openGroups(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "exit 0"))
	wait(t, "the end", s.Done())
	if err := os.Remove(s.slot.group.Dir()); err != nil {
		t.Fatal(err)
	}
	s = start(t, r, sh("app/a", 2, "exec sleep 1000"))
	if got := groupOf(t, s.Observe().PID); filepath.Base(got) != wire.GroupName(s.slot.dir) {
		t.Errorf("the agent is in %s", got)
	}
	s.Kill()
	wait(t, "the end", s.Done())

	// A group next to a threaded one is invalid: the kernel starts nothing in it.
	around := filepath.Join(r.groups.tree.Dir(), wire.GroupPrefix(r.Dir)+"around")
	bad := filepath.Join(around, wire.GroupName(s.slot.dir))
	for _, d := range []string{around, filepath.Join(around, "threads"), bad} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(d)
	}
	if err := os.WriteFile(filepath.Join(around, "threads", "cgroup.type"), []byte("threaded"), 0); err != nil {
		t.Skip(err)
	}
	l := sh("app/a", 3, "exec sleep 1000")
	packed, err := wire.NewLaunch(l)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.slot.unpark().call(ctxOf(t), wire.Message{Type: wire.Start, Incarnation: 3, Launch: packed, Group: &wire.Group{Dir: bad}})
	if err != nil {
		t.Fatal(err)
	}
	if got := groupOf(t, a.State.Agent.PID); got != groupOf(t, a.State.Shim.PID) {
		t.Errorf("the agent is in %s", got)
	}
	if !strings.Contains(a.State.Detail, "control group") || a.State.Group != "" {
		t.Errorf("detail %q, group %q", a.State.Detail, a.State.Group)
	}
}

// A state file that names another group does not harm that.
func TestGroupOfAnotherSlot(t *testing.T) {
	dir := slotsDir(t)
	r := openGroups(t, dir)
	victim := start(t, r, sh("other/victim", 1, "exec sleep 1000"))
	s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
	r.Close()
	shim := shimOf(s)
	shim.Signal(syscall.SIGKILL)
	if err := shim.AwaitDeath(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	st, err := wire.ReadState(s.slot.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{victim.slot.group.Dir(), "/", "/tmp/" + wire.GroupName(s.slot.dir), "\x00", filepath.Dir(victim.slot.group.Dir())} {
		st.Group = group
		writeState(t, s.slot.dir, st)
		r = open(t, dir)
		wait(t, "the end", adopt(t, r, "app/a").Done())
		if o := adopt(t, r, "other/victim").Observe(); o.Life != runtime.Alive {
			t.Errorf("%q: %+v", group, o)
		}
		r.Close()
		os.Remove(filepath.Join(s.slot.dir, wire.ExitFile))
	}
}

// The groups of deleted slots are removed, those of other projects are not.
func TestLeftoverGroups(t *testing.T) {
	dir := slotsDir(t)
	r := openGroups(t, dir)
	start(t, r, sh("app/a", 1, "exec sleep 1000"))
	base := r.groups.tree.Dir()
	prefix := wire.GroupPrefix(r.Dir)
	if err := os.MkdirAll(filepath.Join(r.Dir, "idle"), 0o700); err != nil {
		t.Fatal(err)
	}
	ours, idle, theirs := filepath.Join(base, prefix+"gone"), filepath.Join(base, prefix+"idle"), filepath.Join(base, "coppice-of-another")
	for _, d := range []string{ours, idle, theirs} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(d)
	}
	open(t, dir)
	for d, stays := range map[string]bool{ours: false, idle: true, theirs: true} {
		if _, err := os.Lstat(d); (err == nil) != stays {
			t.Errorf("%s: %v", d, err)
		}
	}
	os.Remove(filepath.Join(r.Dir, "idle"))
}

// A fork bomb ends with the grace period and not much later.
func TestForkBomb(t *testing.T) {
	r := openGroups(t, slotsDir(t))
	l := sh("app/a", 1, `trap "" TERM; f() { setsid sh -c 'trap "" TERM; while :; do sleep 1; done' & }; for i in 1 2 3 4 5 6 7 8 9 10; do f; f; f; f; f; done; echo ready; while :; do f; sleep 0.01; done`)
	l.Grace = 300 * time.Millisecond
	l.Ready.Log = "ready"
	s := start(t, r, l)
	begin := time.Now()
	s.Stop()
	wait(t, "the end", s.Done())
	if took := time.Since(begin); took > l.Grace+time.Second {
		t.Errorf("it took %v", took)
	}
	b, err := os.ReadFile(filepath.Join(s.slot.group.Dir(), "cgroup.procs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) || len(b) > 0 {
		t.Errorf("left in the group: %q, %v", b, err)
	}
}
