package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// doer is a program whose agents do what DO in their environment says. Its bundle is its memory.
type doer int64

func openDoer(bundle io.Reader, _ *os.File) (server.Program, error) {
	var d doer
	if err := json.NewDecoder(bundle).Decode(&d); err != nil {
		return nil, err
	}
	return d, nil
}

func (d doer) Memory() int64 { return int64(d) }

func (d doer) Run(ctx context.Context, f *server.Function) error {
	var do string
	for _, kv := range f.Env() {
		if name, v, _ := strings.Cut(kv, "="); name == "DO" {
			do = v
		}
	}
	switch do {
	case "end":
		return nil
	case "fail":
		return errors.New("broken")
	case "panic":
		panic("oh")
	case "shut down":
		return fmt.Errorf("x: %w", supervisor.ErrShutdown)
	case "fail when stopped":
		<-ctx.Done()
		return errors.New("broken")
	case "hang":
		select {}
	case "ready":
		f.Ready()
	case "print":
		f.Print(proc.Stdout, "one")
		f.Print(proc.Stderr, "two\nthree")
		f.Print(proc.Stdout, strings.Repeat("é", proc.MaxLine))
	case "command", "family":
		script := "setsid sh -c 'echo $$; exec sleep 1000' & wait"
		if do == "family" {
			script = "setsid sh -c 'echo pid $$; exec sleep 1000' & wait"
		}
		cmd := proc.Command{Argv: []string{"sh", "-c", script}, Dir: "/", Env: os.Environ()}
		f.Adopt(&cmd)
		p, err := proc.Start(cmd, proc.Output{Line: func(l proc.Line) { f.Print(l.Stream, l.Text) }})
		if err != nil {
			return err
		}
		f.Ready()
		<-ctx.Done()
		p.Kill()
		<-p.Done()
		if do == "family" {
			return context.Cause(ctx)
		}
		return nil
	case "grow":
		var all [][]byte
		for ctx.Err() == nil {
			all = append(all, make([]byte, 1<<16))
		}
		goruntime.KeepAlive(all)
	}
	<-ctx.Done()
	return ctx.Err()
}

// does returns the launch of an agent of a program.
func does(path string, n uint64, do string) runtime.Launch {
	return runtime.Launch{
		Path: path, Incarnation: n, Dir: "/", Env: []string{"DO=" + do},
		Program: &spec.Program{Key: "program 1", Bundle: []byte("0")},
	}
}

func TestExitsOfAProgram(t *testing.T) {
	r := open(t, slotsDir(t))
	for do, c := range map[string]struct {
		end  func(runtime.Session)
		want supervisor.ExitKind
		says string
	}{
		"end":       {nil, supervisor.Normal, ""},
		"fail":      {nil, supervisor.Failure, "broken"},
		"panic":     {nil, supervisor.Panicked, "panic: oh"},
		"shut down": {nil, supervisor.ShutDown, ""},
		"wait":      {runtime.Session.Stop, supervisor.ShutDown, ""},
		"wait ":     {runtime.Session.Kill, supervisor.ShutDown, ""},
		"wait  ":    {func(s runtime.Session) { s.Signal(ctxOf(t), syscall.SIGTERM) }, supervisor.ShutDown, ""},
		// A failure after a stop is still a failure.
		"fail when stopped": {runtime.Session.Stop, supervisor.Failure, "broken"},
		// A function cannot be forced to end.
		"hang": {runtime.Session.Kill, supervisor.Killed, "did not end within 5s"},
	} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			s := start(t, r, does("p/"+strings.ReplaceAll(do, " ", "_"), 1, do))
			if c.end != nil {
				if o := s.Observe(); o.Life != runtime.Alive || !o.Ready || o.PID != 0 {
					t.Errorf("%+v", o)
				}
				c.end(s)
			}
			wait(t, "its end", s.Done())
			if x := s.Exit(); x.Kind != c.want || !strings.Contains(fmt.Sprint(x.Err), c.says) {
				t.Errorf("%v", x)
			}
			if o := s.Observe(); o.Life != runtime.Dead || o.Ready || o.ExitedAt.IsZero() {
				t.Errorf("%+v", o)
			}
		})
	}
}

// All agents of a program are in one process, which others take over. Those of another one, and
// processes, are not.
func TestProcessOfAProgram(t *testing.T) {
	dir := slotsDir(t)
	r := openWith(t, Options{Dir: dir, PerShim: 1})
	a, b := start(t, r, does("p/a", 1, "")), start(t, r, does("p/q/b", 1, ""))
	other := does("p/c", 1, "")
	other.Program = &spec.Program{Key: "program 2", Bundle: []byte("0")}
	c, d := start(t, r, other), start(t, r, sh("p/d", 1, "exec sleep 1000"))
	if shimOf(a) != shimOf(b) || shimOf(a) == shimOf(c) || shimOf(a) == shimOf(d) || shimOf(c) == shimOf(d) {
		t.Errorf("they are in %v, %v, %v and %v", shimOf(a), shimOf(b), shimOf(c), shimOf(d))
	}
	r.Close()

	r = openWith(t, Options{Dir: dir, PerShim: 1})
	adopted, err := r.Adopt(ctxOf(t), "p/a")
	if err != nil || adopted.Observe().Incarnation != 1 || adopted.Observe().Life != runtime.Alive {
		t.Fatal(adopted, err)
	}
	if e := start(t, r, does("p/e", 1, "")); shimOf(e) != shimOf(a) {
		t.Error("an agent has another process than the others of its program")
	}
	// The slot moves with its agent: to another version of the program, and out of it.
	for n, l := range []runtime.Launch{other, sh("", 0, "exec sleep 1000"), does("", 0, "")} {
		adopted.Stop()
		wait(t, "the end", adopted.Done())
		l.Path, l.Incarnation = "p/a", uint64(n+2)
		adopted = start(t, r, l)
		if n == 0 && shimOf(adopted.(*session)) != shimOf(c) || n > 0 && shimOf(adopted.(*session)) == shimOf(c) {
			t.Errorf("move %d is to the wrong process", n+1)
		}
	}
}

// The end of the process is that of its agents only, and their commands end, too.
func TestKilledProcessOfAProgram(t *testing.T) {
	r := open(t, slotsDir(t))
	a, b := start(t, r, does("p/a", 1, "")), start(t, r, sh("p/b", 1, "exec sleep 1000"))
	l := does("p/c", 1, "command")
	l.Ready.Notify = true
	c := start(t, r, l)
	sleeps := child(t, c)
	shim := shimOf(a)
	if err := shim.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*session{a, c} {
		wait(t, "the end", s.Done())
		if x := s.Exit(); x.Kind != supervisor.Lost {
			t.Errorf("%s: %v", s.slot.path, x)
		}
	}
	mustRun(t, b)
	if err := sleeps.AwaitDeath(ctxOf(t)); err != nil {
		t.Errorf("the command of an agent stays: %v", err)
	}
	if again := start(t, r, does("p/a", 2, "")); shimOf(again) == shim {
		t.Error("it runs in a process that has ended")
	}
}

// child returns the process whose pid an agent has printed.
func child(t *testing.T, s *session) proc.Identity {
	t.Helper()
	var pid int
	ctx, cancel := context.WithCancel(ctxOf(t))
	_ = follow(ctx, s, 1, func(line string) {
		fmt.Sscan(line, &pid)
		cancel()
	})
	id, err := proc.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// What the commands of an agent have left behind ends with it.
func TestCommandsOfAProgram(t *testing.T) {
	r := open(t, slotsDir(t))
	l := does("p/c", 1, "command")
	l.Ready.Notify = true
	s := start(t, r, l)
	sleeps := child(t, s)
	if path, _ := r.Owner(lineageOf(t, sleeps.PID)); path != "p/c" {
		t.Errorf("the command belongs to %q", path)
	}
	s.Stop()
	wait(t, "the end", s.Done())
	if err := sleeps.AwaitDeath(ctxOf(t)); err != nil {
		t.Errorf("the command stays: %v", err)
	}
}

func lineageOf(t *testing.T, pid int) proc.Lineage {
	t.Helper()
	l, err := proc.LineageOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// An agent that reports its readiness has started then. One that ends before has failed to start, and
// one whose start is given up is stopped.
func TestReadinessOfAProgram(t *testing.T) {
	runs := make(chan struct{}, 10)
	r := openWith(t, Options{Dir: slotsDir(t), Output: func(string, uint64, proc.Line) { runs <- struct{}{} }})
	begin := func(ctx context.Context, path, do string) (runtime.Session, error) {
		l := does(path, 1, do)
		l.Ready.Notify = true
		return r.Start(ctx, l)
	}
	if s, err := begin(ctxOf(t), "p/a", "ready"); err != nil || !s.Observe().Ready {
		t.Errorf("%v", err)
	}
	if _, err := begin(ctxOf(t), "p/b", "fail"); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v", err)
	}
	if _, err := begin(ctxOf(t), "p/c", "end"); !errors.Is(err, supervisor.ErrNotReady) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(ctxOf(t))
	given := make(chan error)
	go func() {
		_, err := begin(ctx, "p/d", "print")
		given <- err
	}()
	wait(t, "its output", runs)
	cancel(errors.New("given up"))
	if err := <-given; err == nil || !strings.Contains(err.Error(), "given up") {
		t.Errorf("%v", err)
	}
	last, err := r.Adopt(ctxOf(t), "p/d")
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "its end", last.Done())
}

// What an agent prints is in its log and gets to those who read each line.
func TestOutputOfAProgram(t *testing.T) {
	told := make(chan string, 10)
	r := openWith(t, Options{Dir: slotsDir(t), Output: func(path string, n uint64, l proc.Line) {
		told <- fmt.Sprint(path, "#", n, " ", l.Stream, " ", len(l.Text), " ", l.More, " ", l.Text[:3])
	}})
	s := start(t, r, does("p/a", 1, "print"))
	for _, want := range []string{
		"p/a#1 stdout 3 false one", "p/a#1 stderr 3 false two", "p/a#1 stderr 5 false thr",
		"p/a#1 stdout 65536 true é\xc3", "p/a#1 stdout 65536 false é\xc3",
	} {
		select {
		case got := <-told:
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		case <-ctxOf(t).Done():
			t.Fatalf("%q did not come", want)
		}
	}
	if lines, err := s.Peek(ctxOf(t), 2); err != nil || len(lines) != 2 || !strings.HasPrefix(lines[1], "éé") {
		t.Errorf("%.100q, %v", lines, err)
	}
	if at, err := s.LastActivity(ctxOf(t)); err != nil || at.IsZero() {
		t.Errorf("%v, %v", at, err)
	}
	if err := s.Write(ctxOf(t), []byte("x")); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("typing: %v", err)
	}
	if err := s.Signal(ctxOf(t), syscall.SIGUSR1); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("a signal: %v", err)
	}
}

// What cannot be run in a program is refused.
func TestRefusedByAProgram(t *testing.T) {
	r := open(t, slotsDir(t))
	l := does("p/a", 1, "")
	l.Paths = landlock.New([]string{}, nil)
	if _, err := r.Start(ctxOf(t), l); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("%v, expected %v", err, runtime.ErrUnsupported)
	}
	broken := does("p/b", 1, "")
	broken.Program = &spec.Program{Key: "program 2", Bundle: []byte("{")}
	r, err := Open(Options{Dir: slotsDir(t)}) // its shim fails, which is no defect
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Start(ctxOf(t), broken); err == nil || !strings.Contains(err.Error(), "opening the program") {
		t.Errorf("%v", err)
	}
}

// A process that needs more memory than it may use fails with all its agents, and says why.
func TestMemoryOfAProgram(t *testing.T) {
	dir := slotsDir(t)
	r, err := Open(Options{Dir: dir}) // its shim says that it fails
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	limited := func(path string, n uint64, do string) runtime.Launch {
		l := does(path, n, do)
		l.Program.Bundle = []byte(fmt.Sprint(64 << 20))
		return l
	}
	const says = "more than its 64 MiB of memory"
	a, b := start(t, r, limited("p/a", 1, "")), start(t, r, limited("p/b", 1, "grow"))
	shim := shimOf(b) // the state file has the next one later
	other := start(t, r, sh("p/c", 1, "exec sleep 1000"))
	for _, s := range []*session{a, b} {
		wait(t, "the end of "+s.slot.path, s.Done())
		if x := s.Exit(); x.Kind != supervisor.Failure || !strings.Contains(fmt.Sprint(x.Err), says) {
			t.Errorf("%s: %v", s.slot.path, x)
		}
	}
	mustRun(t, other)
	if again := start(t, r, limited("p/a", 2, "")); shimOf(again) == shim {
		t.Error("it goes on in the same process")
	}
	if err := shim.AwaitDeath(ctxOf(t)); err != nil {
		t.Errorf("the process stays: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, wire.ShimLog))
	if err != nil || !strings.Contains(string(text), says) {
		t.Errorf("the log of shims has %q, %v", text, err)
	}
}
