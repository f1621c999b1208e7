package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// stop stops a process, and waits until it has stopped.
func (s *site) stop(id proc.Identity) {
	s.t.Helper()
	exectest.Signal(s.t, id.PID, unix.SIGSTOP)
	s.await("its stop", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id.PID))
		return strings.Contains(string(text), ") T ")
	})
}

// inRuntimes runs a test with a site of its own for each kind of runtime.
func inRuntimes(t *testing.T, test func(t *testing.T, s *site, kind string)) {
	t.Parallel()
	for _, kind := range []string{"proc", "tmux"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newSite(t), kind)
		})
	}
}

// What an agent has started runs on when the daemon and its shim, or its keeper, were killed, as long as the deadline
// is moved. At the deadline the guard ends it, and then itself.
func TestShimKilled(t *testing.T) {
	inRuntimes(t, func(t *testing.T, s *site, kind string) {
		begin := s.lease.Now()
		stop := s.lease.Keep(ttl)
		k := s.keep()
		f := s.start(kind, agentScript)
		s.kill(f.shim)
		all := f.descendants()
		if kind == "proc" {
			s.gone(f.agent)
		} else {
			all = append(all, f.agent)
		}
		deadline.Wait(nil, begin.Add(ttl+ttl/2)) // the first deadline that the guard has read has passed
		s.lease.MustRun(all...)
		until := stop()
		s.lease.AwaitDeaths(until, until.Add(grace+killTime), all...)
		s.gone(k.current())
	})
}

// A shim that is killed after the deadline, in the grace period of its agent, leaves nothing either.
func TestShimKilledLater(t *testing.T) {
	inRuntimes(t, func(t *testing.T, s *site, kind string) {
		until := s.lease.Renew(ttl)
		s.keep()
		f := s.start(kind, agentScript)
		s.gone(f.agent) // it does not ignore the signal
		s.lease.MustRun(f.descendants()...)
		s.kill(f.shim)
		s.lease.AwaitDeaths(until, until.Add(grace+killTime), f.descendants()...)
	})
}

// A guard that was paused over the deadline acts right after that.
func TestPaused(t *testing.T) {
	inRuntimes(t, func(t *testing.T, s *site, kind string) {
		until := s.lease.Renew(ttl)
		k := s.keep()
		f := s.start(kind, agentScript)
		s.stop(k.current())
		s.kill(f.shim)
		deadline.Wait(nil, until.Add(grace+killTime))
		s.lease.MustRun(f.descendants()...)
		now := s.lease.Now()
		exectest.Signal(t, k.current().PID, unix.SIGCONT)
		s.lease.AwaitDeaths(now, now.Add(killTime), f.descendants()...)
	})
}

// deafScript is agentScript of an agent that ignores SIGTERM.
const deafScript = `trap "" TERM HUP; ` + agentScript

// The agents of a shim that lives have their whole grace period, and end as without a guard. Those of one that hangs
// end after it, too.
func TestShimLives(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"proc", "tmux"} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/hangs %v", kind, hangs), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				until := s.lease.Renew(ttl)
				k := s.keep()
				f := s.start(kind, deafScript)
				if hangs {
					s.stop(f.shim)
				}
				last := until.Add(grace)
				s.lease.AwaitDeaths(last, last.Add(killTime), f.agent, f.child, f.grandchild)
				s.gone(k.current())
				if proc.Observe(f.shim) != proc.Alive && kind == "proc" {
					t.Error("the shim was killed")
				}
				if hangs {
					exectest.Signal(t, f.shim.PID, unix.SIGCONT)
					return
				}
				r := s.open(kind)
				defer r.(io.Closer).Close()
				ses, err := r.Adopt(t.Context(), s.agent)
				if err != nil {
					t.Fatal(err)
				}
				if <-ses.Done(); !errors.Is(ses.Exit().Err, runtime.ErrDeadline) {
					t.Errorf("exit = %v", ses.Exit())
				}
			})
		}
	}
}

// A daemon that was stopped while it had the lock of a slot keeps the guard from nothing.
func TestSlotLocked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	until := s.lease.Renew(ttl)
	s.keep()
	f := s.start("proc", agentScript)
	s.kill(f.shim)
	lock, err := wire.TryLock(s.slot("proc"))
	if err != nil || lock == nil {
		t.Fatal(lock, err)
	}
	t.Cleanup(func() { lock.Close() })
	s.lease.AwaitDeaths(until, until.Add(grace+killTime), f.descendants()...)
}

// A damaged state is no reason to leave what runs.
func TestSlotDamaged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	until := s.lease.Renew(ttl)
	s.keep()
	f := s.start("proc", agentScript)
	s.kill(f.shim)
	if err := os.WriteFile(filepath.Join(s.slot("proc"), wire.LockFile), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.lease.AwaitDeaths(until, until.Add(grace+killTime), f.descendants()...)
}

// While there is a daemon the guard stays after a deadline, and acts at the next one.
func TestNextDeadline(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lock, err := s.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	first := s.lease.Renew(ttl / 2)
	k := s.keep()
	guard := k.current()
	deadline.Wait(nil, first.Add(grace))
	until := s.lease.Renew(2 * ttl)
	f := s.start("proc", agentScript)
	s.kill(f.shim)
	s.lease.AwaitDeaths(until, until.Add(grace+killTime), f.descendants()...)
	s.lease.MustRun(guard)
}

// A guard ends when there is no deadline any longer, and does nothing to what runs.
func TestLifted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.lease.Renew(ttl)
	k := s.keep()
	f := s.start("proc", agentScript)
	s.kill(f.shim)
	s.lease.Lift()
	s.gone(k.current())
	s.lease.MustRun(f.descendants()...)
}

// A guard ends when the project was removed.
func TestRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.lease.Renew(ttl)
	k := s.keep()
	if err := os.RemoveAll(s.State); err != nil {
		t.Fatal(err)
	}
	s.gone(k.current())
}

// A project has one guard: that of an earlier daemon, unless it runs another program. One that was killed is replaced.
func TestOne(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.lease.Renew(time.Hour)
	k := s.keep()
	first := k.current()
	k.Close()
	k = s.keep()
	if k.current() != first {
		t.Errorf("another guard was started: %v, was %v", k.current(), first)
	}
	s.kill(first)
	s.await("another guard", func() bool { return k.current() != first })
	second := k.current()
	s.lease.MustRun(second)
	if err := k.End(); err != nil {
		t.Fatal(err)
	}
	s.gone(second)

	other := filepath.Join(t.TempDir(), "other")
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	exectest.Write(t, other, string(program))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	old := exec.Command(other)
	old.Args, old.ExtraFiles, old.Dir = []string{"coppice", Arg, s.Dir, s.State}, []*os.File{w}, s.State
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if text, err := io.ReadAll(r); err != nil || !strings.Contains(string(text), fmt.Sprint(old.Process.Pid)) {
		t.Fatalf("%q, %v", text, err)
	}
	s.stop(s.identify(old.Process.Pid)) // also if it hangs
	k = s.keep()
	if k.current().PID == old.Process.Pid {
		t.Error("the guard of another program was kept")
	}
	if err := old.Wait(); err == nil {
		t.Error("it has ended by itself")
	}
}

// A guard shares nothing with the daemon, and does not have its name.
func TestApart(t *testing.T) {
	t.Parallel()
	proc.SealInherited() // as the daemon does
	s := newSite(t)
	s.lease.Renew(time.Hour)
	k := s.keep()
	at := fmt.Sprintf("/proc/%d/", k.current().PID)
	if name, err := os.ReadFile(at + "comm"); err != nil || strings.TrimSpace(string(name)) == "coppice" {
		t.Errorf("it is called %q, %v", name, err)
	}
	if session, err := unix.Getsid(k.current().PID); err != nil || session != k.current().PID {
		t.Errorf("session %d, %v", session, err)
	}
	s.await("the end of what it has inherited", func() bool {
		links, err := filepath.Glob(at + "fd/*")
		if err != nil || len(links) == 0 {
			t.Fatal(links, err)
		}
		for _, link := range links {
			file, err := os.Readlink(link)
			switch {
			case err != nil, file == os.DevNull, filepath.Dir(file) == s.State: // closed, or its own
			case !strings.HasPrefix(file, "anon_inode:") && !strings.HasPrefix(file, "/sys/fs/cgroup/"): // of Go
				return false
			}
		}
		return true
	})
}

// Arguments and locks that are none are refused, and end no other process.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"/a"}, {"/a", "b"}, {"a", "/b"}, {"/a", "/b", "/c"}} {
		if code := Main(args); code != 2 {
			t.Errorf("%q: %d", args, code)
		}
	}
	s := newSite(t)
	self := s.identify(os.Getpid())
	for name, id := range map[string]proc.Identity{"none": {}, "this process": self, "init": {PID: 1}} {
		if isGuard(id, s.Project) {
			t.Errorf("%s is a guard", name)
		}
	}
	for _, text := range []string{"", "{", `{"pid":-1}`, strings.Repeat("x", maxHolder+1)} {
		if err := os.WriteFile(filepath.Join(s.State, lockName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.lease.Renew(time.Hour)
		k := s.keep()
		if err := k.End(); err != nil {
			t.Error(err)
		}
	}
	if err := end(proc.Identity{}); !errors.Is(err, os.ErrProcessDone) && err != nil {
		t.Error(err)
	}
}

// What stops a project without its daemon ends its guard.
func TestEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if err := End(s.Project); err != nil {
		t.Errorf("without a guard: %v", err)
	}
	s.lease.Renew(time.Hour)
	k := s.keep()
	k.Close()
	if err := End(s.Project); err != nil {
		t.Error(err)
	}
	if state := proc.Observe(k.current()); state == proc.Alive {
		t.Errorf("the guard is %v", state)
	}
	if err := End(s.Project); err != nil {
		t.Errorf("again: %v", err)
	}
}

// Other nodes do not wait longer for the agents of a shim that hangs, however many there are.
func TestManyAgentsOfAHungShim(t *testing.T) {
	const n = 150
	s := newSite(t)
	stop := s.lease.Keep(ttl)
	k := s.keep()
	r, err := shim.Open(shim.Options{Dir: s.Slots(), Deadline: s.DeadlineFile(), PerShim: n})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	t.Cleanup(func() {
		for i := range n {
			s.agent = fmt.Sprint("app/a", i)
			s.empty("proc")
		}
	})
	shims := make(map[proc.Identity]bool)
	var agents []proc.Identity
	for i := range n {
		s.agent = fmt.Sprint("app/a", i)
		ses, err := r.Start(t.Context(), runtime.Launch{
			Path: s.agent, Incarnation: 1, Dir: t.TempDir(), Grace: grace,
			Argv: []string{"/bin/sh", "-c", `trap "" TERM HUP; while :; do sleep 1000; done`},
			Env:  append(proc.Environ(nil, proc.Self{Agent: s.agent, Incarnation: 1}), runtimetest.Env()),
		})
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, s.identify(ses.Observe().PID))
		shims[s.shim("proc")] = true
		s.await("its record", func() bool { // else the shim has to be killed for it
			st, err := wire.ReadState(s.slot("proc"))
			return err == nil && st.Agent == agents[i]
		})
	}
	for shim := range shims {
		s.stop(shim)
		t.Cleanup(func() { shim.Signal(unix.SIGCONT) })
	}
	last := stop().Add(grace)
	s.lease.AwaitDeaths(last, last.Add(killTime*3/2), agents...)
	s.gone(k.current())
}

// A process that an agent of a hung shim has started without its environment ends with it.
func TestBareProcessOfAHungShim(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stop := s.lease.Keep(ttl)
	s.keep()
	r, err := shim.Open(shim.Options{Dir: s.Slots(), Deadline: s.DeadlineFile(), WithoutGroups: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	t.Cleanup(func() { s.empty("proc") })
	dir := t.TempDir()
	exectest.Write(t, dir+"/bare.sh", `trap "" TERM HUP; echo bare $$ >> pids; exec sleep 1000`)
	if _, err := r.Start(t.Context(), runtime.Launch{
		Path: s.agent, Incarnation: 1, Dir: dir, Grace: grace,
		Argv: []string{"/bin/sh", "-c",
			`trap "" TERM HUP; env -i PATH="$PATH" setsid sh bare.sh & echo agent $$ >> pids; wait; wait`},
		Env: append(proc.Environ(nil, proc.Self{Agent: s.agent, Incarnation: 1}), runtimetest.Env()),
	}); err != nil {
		t.Fatal(err)
	}
	pids := s.pids(dir, 2)
	bare, hung := pids["bare"], s.shim("proc")
	t.Cleanup(func() { bare.Signal(unix.SIGKILL) })
	s.await("its record", func() bool {
		st, err := wire.ReadState(s.slot("proc"))
		return err == nil && st.Agent == pids["agent"]
	})
	s.stop(hung)
	t.Cleanup(func() { hung.Signal(unix.SIGCONT) })
	last := stop().Add(grace)
	s.lease.AwaitDeaths(last, last.Add(killTime), pids["agent"], bare)
}
