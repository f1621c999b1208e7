package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// family is an agent with descendants in their own sessions that ignore all signals. They print
// their pids.
const family = `
setsid sh -c 'trap "" TERM HUP INT; sh -c "trap \"\" TERM HUP INT; echo pid \$\$; while :; do sleep 1; done" & echo "pid $$"; while :; do sleep 1; done' &
(setsid sh -c 'trap "" TERM HUP INT; echo "pid $$"; while :; do sleep 1; done' &)
echo "pid $$"; while :; do sleep 1; done`

func start(t testing.TB, r *Runtime, l runtime.Launch) *session {
	t.Helper()
	s, err := r.Start(ctxOf(t), l)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

func adopt(t testing.TB, r *Runtime, path string) *session {
	t.Helper()
	s, err := r.Adopt(ctxOf(t), path)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

func shimOf(s *session) proc.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Shim == (proc.Identity{}) { // the agent ended before the answer to its start
		if st, err := wire.ReadState(s.slot.dir); err == nil {
			return st.Shim
		}
	}
	return s.state.Shim
}

// pids reads n lines of output that name a process.
func pids(t testing.TB, s runtime.Session, n int) []proc.Identity { return pidsAfter(t, s, 0, n) }

// pidsAfter skips those of earlier incarnations.
func pidsAfter(t testing.TB, s runtime.Session, skip, n int) (all []proc.Identity) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	follow(ctx, s, 100, func(line string) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "pid "); ok {
			if skip--; skip >= 0 {
				return
			}
			pid, _ := strconv.Atoi(rest)
			id, err := proc.Identify(pid)
			if err != nil {
				t.Error(err)
			}
			if all = append(all, id); len(all) == n {
				cancel()
			}
		}
	})
	if len(all) != n {
		t.Fatalf("%d processes, want %d", len(all), n)
	}
	return all
}

func allGone(t testing.TB, ids []proc.Identity) {
	t.Helper()
	for _, id := range ids {
		if proc.Observe(id) != proc.Dead {
			t.Errorf("process %d is still there", id.PID)
			id.Signal(syscall.SIGKILL)
		}
	}
}

// When a shim is killed, nothing of its agent is left when the loss is reported, to a daemon
// that watches or to one that comes later, with control groups or without.
func TestShimIsKilled(t *testing.T) {
	for _, c := range []struct{ watched, groups bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		watched := c.watched
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			o := Options{Dir: slotsDir(t), WithoutGroups: !c.groups}
			r := openWith(t, o)
			s := start(t, r, sh("app/a", 1, family))
			ids := append(pids(t, s, 4), shimOf(s))
			if !watched {
				r.Close()
			}
			if err := shimOf(s).Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if !watched {
				if err := shimOf(s).AwaitDeath(ctxOf(t)); err != nil {
					t.Fatal(err)
				}
				r = openWith(t, o)
				wantUnrecorded(t, r, true)
				s = adopt(t, r, "app/a")
				wantUnrecorded(t, r, false)
			}
			wait(t, "the end", s.Done())
			allGone(t, ids)
			if e := s.Exit(); e.Kind != supervisor.Lost {
				t.Errorf("exit = %v, want lost", e)
			}
			// It stays lost, and is not confused with its successor.
			s = start(t, r, sh("app/a", 2, family))
			ids = pidsAfter(t, s, 4, 4)
			if o := s.Observe(); o.Life != runtime.Alive {
				t.Errorf("successor: %+v", o)
			}
			s.Kill()
			wait(t, "the end", s.Done())
			allGone(t, ids)
		})
	}
}

// wantUnrecorded expects one slot with a lost agent, whose end is on record or not.
func wantUnrecorded(t *testing.T, r *Runtime, want bool) {
	t.Helper()
	all, err := r.List(ctxOf(t))
	if err != nil || len(all) != 1 || all[0].Life != runtime.Dead || all[0].Exit.Kind != supervisor.Lost ||
		all[0].Unrecorded != want {
		t.Errorf("listed %+v, %v; want a lost agent, unrecorded: %v", all, err, want)
	}
}

// The start of the next incarnation ensures that nothing of the last one runs.
func TestStartAfterShimWasKilled(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	s := start(t, r, sh("app/a", 1, family))
	ids := pids(t, s, 4)
	r.Close()
	shim := shimOf(s)
	shim.Signal(syscall.SIGKILL)
	r = open(t, dir)
	start(t, r, sh("app/a", 2, "exec sleep 1000"))
	allGone(t, append(ids, shim))
}

// awaitStopped waits until no thread of a process runs, because a SIGSTOP takes effect later
// than it is sent.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(files) == 0 {
			t.Fatalf("process %d: %v", pid, err)
		}
		stopped := 0
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(") T ")) {
				stopped++
			}
		}
		if stopped == len(files) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

// A shim that does not respond is alive: its state is unknown, and nothing is done.
func TestShimHangs(t *testing.T) {
	t.Parallel()
	dir := slotsDir(t)
	r := open(t, dir)
	s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
	shim := shimOf(s)
	r.Close()
	shim.Signal(syscall.SIGSTOP)
	awaitStopped(t, shim.PID)
	r = open(t, dir)
	if _, err := r.Adopt(ctxOf(t), "app/a"); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("adopt: %v", err)
	}
	if _, err := r.Start(ctxOf(t), sh("app/a", 2, "true")); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("start: %v", err)
	}
	if err := r.Remove(ctxOf(t), "app/a"); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("remove: %v", err)
	}
	all, err := r.List(ctxOf(t))
	if err != nil || len(all) != 1 || all[0].Life != runtime.Unknown || all[0].Path != "app/a" || all[0].Detail == "" {
		t.Errorf("list: %+v, %v", all, err)
	}
	shim.Signal(syscall.SIGCONT)
	if o := adopt(t, r, "app/a").Observe(); o.Life != runtime.Alive || o.Incarnation != 1 {
		t.Errorf("when it answers again: %+v", o)
	}
}

// Kill does not need a shim that responds.
func TestKillOfAShimThatHangs(t *testing.T) {
	t.Parallel()
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, family))
	ids := pids(t, s, 4)
	trace(t, shimOf(s))
	s.Stop()
	s.Kill()
	select {
	case <-s.Done():
	case <-time.After(supervisor.KillGrace):
		t.Fatal("it lives longer than a supervisor waits")
	}
	allGone(t, ids)
}

// SIGTERM, as when the machine shuts down, stops the agent gracefully, and its exit is recorded.
func TestShimIsTerminated(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	s := start(t, r, sh("app/a", 1, "trap 'exit 0' TERM; echo pid $$; while :; do sleep 0.05; done"))
	pids(t, s, 1)
	r.Close()
	shimOf(s).Signal(syscall.SIGTERM)
	if err := shimOf(s).AwaitDeath(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	s = adopt(t, open(t, dir), "app/a")
	wait(t, "the end", s.Done())
	if e := s.Exit(); e.Kind != supervisor.ShutDown {
		t.Errorf("exit = %v", e)
	}
}

func TestSameShimForAllIncarnations(t *testing.T) {
	r := open(t, slotsDir(t))
	var first proc.Identity
	for n := uint64(1); n <= 5; n++ {
		s := start(t, r, sh("app/a", n, "exit 1"))
		wait(t, "the end", s.Done())
		if n == 1 {
			first = shimOf(s)
		}
		if shimOf(s) != first {
			t.Errorf("incarnation %d has another shim", n)
		}
	}
}

// A daemon that dies while it starts a shim leaves none behind.
func TestShimWithoutDaemon(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	s, err := r.Get("app/a")
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.MakeDir(s.dir); err != nil {
		t.Fatal(err)
	}
	lock, err := wire.TryLock(s.dir)
	if err != nil || lock == nil {
		t.Fatal(lock, err)
	}
	l, err := s.spawn(ctxOf(t), &runtime.Launch{Path: s.path}, lock)
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if locked, err := wire.Locked(s.dir); err != nil || !locked {
		t.Errorf("the lock did not pass over: %v, %v", locked, err)
	}
	m, err := l.call(ctxOf(t), wire.Message{Type: wire.Look})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := m.State.Shim.AwaitDeath(ctxOf(t)); err != nil {
		t.Errorf("the shim stays: %v", err)
	}
}

// Removed files are created again, and no agent runs twice.
func TestRemovedFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		remove func(dir string) error
	}{
		{"socket", func(dir string) error { return os.Remove(filepath.Join(dir, wire.SocketFile)) }},
		{"lock", func(dir string) error { return os.Remove(filepath.Join(dir, wire.LockFile)) }},
		{"socket and lock", func(dir string) error {
			return errors.Join(
				os.Remove(filepath.Join(dir, wire.LockFile)), os.Remove(filepath.Join(dir, wire.SocketFile)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := slotsDir(t)
			r := open(t, dir)
			s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
			shim := shimOf(s)
			if err := c.remove(s.slot.dir); err != nil {
				t.Fatal(err)
			}
			other := open(t, dir)
			if _, err := other.Start(ctxOf(t), sh("app/a", 2, "exec sleep 1000")); !errors.Is(err, runtime.ErrBusy) {
				t.Errorf("start: %v", err)
			}
			r.Close()
			s = adopt(t, other, "app/a")
			if o := s.Observe(); o.Life != runtime.Alive || o.Incarnation != 1 || shimOf(s) != shim {
				t.Errorf("adopted %+v", o)
			}
		})
	}
}

// If the whole directory is removed, nothing is known of a slot. Its shim creates it again when
// a connection ends. A faster start replaces the agent, and never adds one.
func TestRemovedDirectory(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	s := start(t, r, sh("app/a", 1, family))
	ids := append(pids(t, s, 4), shimOf(s))
	removeSlot(t, s.slot.dir)
	if err := s.Signal(ctxOf(t), syscall.SIGCONT); err != nil {
		t.Errorf("who is connected: %v", err)
	}
	other := open(t, dir)
	n := s
	if a, err := other.Start(ctxOf(t), sh("app/a", 2, "exec sleep 1000")); err == nil {
		allGone(t, ids)
		wait(t, "the end of the first", s.Done())
		// Its shim is killed, too, and may have had time to report.
		if e := s.Exit(); e.Kind != supervisor.Lost && e.Kind != supervisor.Killed {
			t.Errorf("exit of the first = %v", e)
		}
		n = a.(*session)
	} else if !errors.Is(err, runtime.ErrBusy) {
		t.Fatal(err)
	}

	shim := shimOf(n)
	removeSlot(t, n.slot.dir)
	other.Close()
	r.Close()
	last := open(t, dir)
	for ctx := ctxOf(t); ; { // until the shim sees the end of the connection
		a, err := last.Adopt(ctx, "app/a")
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		if err == nil {
			if shimOf(a.(*session)) != shim || a.Observe().Incarnation != n.number {
				t.Errorf("adopted %+v", a.Observe())
			}
			return
		}
		missing := os.IsNotExist(errors.Unwrap(errors.Unwrap(err))) || wire.IsMissing(err)
		if !missing && !errors.Is(err, runtime.ErrUnknown) {
			t.Fatal(err)
		}
	}
}

// removeSlot removes a directory in which a shim may be writing.
func removeSlot(t *testing.T, dir string) {
	t.Helper()
	err := os.RemoveAll(dir)
	for end := time.Now().Add(testTimeout); err != nil && time.Now().Before(end); {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDamagedFiles(t *testing.T) {
	for _, c := range []struct {
		name, file, content string
		kind                supervisor.ExitKind
	}{
		{"record cut short", wire.ExitFile, `{"version":1,"incarnation":1,"end":{"kind":"nor`, supervisor.Lost},
		{"record of another incarnation", wire.ExitFile, `{"version":1,"incarnation":7,"end":{"kind":"normal"}}`, supervisor.Lost},
		{"record of a newer version", wire.ExitFile, `{"version":99,"incarnation":1,"end":{"kind":"normal"}}`, supervisor.Lost},
		{"record of an unknown kind", wire.ExitFile, `{"version":1,"incarnation":1,"end":{"kind":"evaporated"}}`, supervisor.Failure},
		{"empty record", wire.ExitFile, ``, supervisor.Lost},
		{"garbage as state", wire.LockFile, "\x00\xff{", supervisor.Lost},
		{"empty state", wire.LockFile, "", supervisor.Lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := slotsDir(t)
			r := open(t, dir)
			s := start(t, r, sh("app/a", 1, "exit 0"))
			wait(t, "the end", s.Done())
			r.Close()
			shimOf(s).Signal(syscall.SIGTERM)
			if err := shimOf(s).AwaitDeath(ctxOf(t)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.slot.dir, c.file), []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			r = open(t, dir)
			if _, err := r.List(ctxOf(t)); err != nil {
				t.Errorf("list: %v", err)
			}
			a, err := r.Adopt(ctxOf(t), "app/a")
			if err != nil {
				t.Fatal(err)
			}
			wait(t, "the end", a.Done())
			if e := a.Exit(); e.Kind != c.kind || e.Err == nil {
				t.Errorf("exit = %v, want %v and a reason", e, c.kind)
			}
			start(t, r, sh("app/a", 8, "exec sleep 1000"))
		})
	}
}

// After a boot, nothing from before it runs, even if another process has its pid.
func TestBoot(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
	r.Close()
	shimOf(s).Signal(syscall.SIGKILL)
	if err := shimOf(s).AwaitDeath(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.slot.dir, wire.LockFile)
	st, err := wire.ReadState(s.slot.dir)
	if err != nil {
		t.Fatal(err)
	}
	self, err := proc.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	st.Shim = proc.Identity{PID: self.PID, Start: self.Start, Boot: "another"}
	b, _ := json.Marshal(st)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s = adopt(t, open(t, dir), "app/a")
	wait(t, "the end", s.Done())
	if e := s.Exit(); e.Kind != supervisor.Lost {
		t.Errorf("exit = %v", e)
	}
}

func TestLimits(t *testing.T) {
	r := open(t, slotsDir(t))
	l := sh("app/a", 1, `echo "limits $(ulimit -n) $(ulimit -v) $(ulimit -Hn) $1"; exec sleep 1000`)
	l.Argv = append(l.Argv, "argument")
	l.Limits = runtime.Limits{OpenFiles: 123, Memory: 4 << 30}
	s := start(t, r, l)
	found := false
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	follow(ctx, s, 10, func(line string) {
		if line == fmt.Sprintf("limits 123 %d 123 argument", 4<<20) {
			found = true
			cancel()
		}
	})
	if !found {
		lines, _ := s.Peek(context.Background(), 10)
		t.Errorf("limits: %q", lines)
	}
	l = sh("app/b", 1, "")
	l.Argv, l.Limits.OpenFiles = []string{"no-such-program"}, 100
	if _, err := r.Start(ctxOf(t), l); !errors.Is(err, proc.ErrCommand) {
		t.Errorf("a program that does not exist, with limits: %v", err)
	}
}
