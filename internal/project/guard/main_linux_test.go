package guard

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/tmux"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
)

func TestMain(m *testing.M) {
	runtimetest.Main(m, map[string]func([]string) int{
		"shim": server.Main, pane.Arg: pane.Main, Arg: Main,
	})
}

// Times of these tests.
const (
	testTimeout = 20 * time.Second // of every wait; only a failure takes that long
	ttl         = 2 * time.Second  // of the lease
	grace       = time.Second      // of agents
	killTime    = time.Second      // that other nodes wait after that
)

// site is a project on a node of a fleet.
type site struct {
	t *testing.T
	project.Project
	lease *runtimetest.Lease
	agent string // its path
}

func newSite(t *testing.T) *site {
	t.Helper()
	p, err := project.Open(filepath.Join(t.TempDir(), "coppice.toml"))
	if err == nil {
		err = p.Make()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &site{t: t, Project: p, lease: runtimetest.NewLeaseIn(t, p.DeadlineFile()), agent: "app/a"}
}

// keep starts a guard, which ends with the test.
func (s *site) keep() *Keeper {
	s.t.Helper()
	k := Keep(s.Project, slog.New(slog.NewTextHandler(s.t.Output(), nil)))
	s.t.Cleanup(func() {
		k.End()
		if text, _ := os.ReadFile(filepath.Join(s.State, logName)); strings.Contains(string(text), "level=ERROR") {
			s.t.Errorf("the guard says: %s", text)
		}
	})
	if k.current() == (proc.Identity{}) {
		s.t.Fatal("there is no guard")
	}
	return k
}

// open opens a runtime, as the daemon does.
func (s *site) open(kind string) runtime.Runtime {
	s.t.Helper()
	var r runtime.Runtime
	var err error
	if kind == "tmux" {
		if _, err := tmux.Version(context.Background()); err != nil {
			exectest.Missing(s.t, err)
		}
		r, err = tmux.Open(tmux.Options{Dir: s.Tmux(), Deadline: s.DeadlineFile()})
	} else {
		r, err = shim.Open(shim.Options{Dir: s.Slots(), Deadline: s.DeadlineFile()})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// The processes of an agent: it, a child and a grandchild with a session of its own, which ignore SIGTERM.
const (
	agentScript = `sh child.sh & echo agent $$ >> pids; exec sleep 1000`
	childScript = `trap "" TERM HUP; setsid sh grandchild.sh & echo child $$ >> pids; exec sleep 1000`
	grandScript = `trap "" TERM HUP; echo grandchild $$ >> pids; exec sleep 1000`
)

// family are these processes.
type family struct{ agent, child, grandchild, shim proc.Identity }

// descendants returns those that no end of a shim ends.
func (f family) descendants() []proc.Identity { return []proc.Identity{f.child, f.grandchild} }

// start starts the agent, as a daemon that is killed then.
func (s *site) start(kind, script string) family {
	s.t.Helper()
	dir := s.t.TempDir()
	exectest.Write(s.t, dir+"/child.sh", childScript)
	exectest.Write(s.t, dir+"/grandchild.sh", grandScript)
	r := s.open(kind)
	defer r.(io.Closer).Close()
	s.t.Cleanup(func() { s.empty(kind) })
	_, err := r.Start(s.t.Context(), runtime.Launch{
		Path: s.agent, Incarnation: 1, Argv: []string{"/bin/sh", "-c", script}, Dir: dir, Grace: grace,
		Env: append(proc.Environ(nil, proc.Self{Agent: s.agent, Incarnation: 1}), runtimetest.Env()),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	pids := s.pids(dir, 3)
	f := family{agent: pids["agent"], child: pids["child"], grandchild: pids["grandchild"]}
	f.shim = s.shim(kind)
	return f
}

// empty kills what is left of the agent.
func (s *site) empty(kind string) {
	r := s.open(kind)
	defer r.(io.Closer).Close()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if ses, err := r.Adopt(ctx, s.agent); err == nil {
		ses.Kill()
		<-ses.Done()
	}
	if err := r.Remove(ctx, s.agent); err != nil {
		s.t.Error(err)
	}
}

// slot returns the directory of the slot of the agent.
func (s *site) slot(kind string) string {
	name, err := wire.DirName(s.agent)
	if err != nil {
		s.t.Fatal(err)
	}
	if kind == "tmux" {
		return filepath.Join(s.Tmux(), name)
	}
	return filepath.Join(s.Slots(), name)
}

// shim returns the process that would end the agent at the deadline.
func (s *site) shim(kind string) proc.Identity {
	s.t.Helper()
	if kind != "tmux" {
		st, err := wire.ReadState(s.slot(kind))
		if err != nil {
			s.t.Fatal(err)
		}
		return st.Shim
	}
	begin := strings.Join(pane.KeepArgs(s.slot(kind), "", 0, runtime.Log{}, "")[:3], "\x00")
	pids, err := proc.PIDs()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, pid := range pids {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if _, args, _ := strings.Cut(string(argv), "\x00"); strings.HasPrefix(args, begin) {
			return s.identify(pid)
		}
	}
	s.t.Fatal("there is no keeper")
	return proc.Identity{}
}

func (s *site) identify(pid int) proc.Identity {
	s.t.Helper()
	id, err := proc.Identify(pid)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// pids waits until so many processes have written their pids.
func (s *site) pids(dir string, n int) map[string]proc.Identity {
	s.t.Helper()
	var fields []string
	s.await("the pids", func() bool {
		text, _ := os.ReadFile(dir + "/pids")
		fields = strings.Fields(string(text))
		return len(fields) == 2*n
	})
	all := make(map[string]proc.Identity)
	for i := 0; i < len(fields); i += 2 {
		pid, err := strconv.Atoi(fields[i+1])
		if err != nil {
			s.t.Fatal(err)
		}
		all[fields[i]] = s.identify(pid)
	}
	return all
}

func (s *site) await(what string, done func() bool) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(testTimeout); !done(); {
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("%s did not come within %v", what, testTimeout)
		}
	}
}

// kill kills a process, and waits until it has ended.
func (s *site) kill(id proc.Identity) {
	s.t.Helper()
	exectest.Signal(s.t, id.PID, 9)
	s.gone(id)
}

// gone waits until a process has ended.
func (s *site) gone(id proc.Identity) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
	defer cancel()
	if err := id.AwaitDeath(ctx); err != nil {
		s.t.Fatalf("process %d: %v", id.PID, err)
	}
}
