package runtimetest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

func testStartAndEnd(t *testing.T, b *harness) {
	r := b.runtime()
	before := time.Now()
	s := b.start(r, sh("app/a", 1, forever))
	o := s.Observe()
	if o.Path != "app/a" || o.Incarnation != 1 || o.SpecHash != "f1" || o.Life != runtime.Alive || !o.Ready ||
		o.PID <= 0 {
		t.Errorf("observation of what lives: %+v", o)
	}
	if o.StartedAt.Before(before.Add(-time.Second)) || o.StartedAt.After(time.Now().Add(time.Second)) {
		t.Errorf("started at %v, not about %v", o.StartedAt, before)
	}
	if e := s.Exit(); e.Kind != supervisor.NoExit {
		t.Errorf("exit before the end: %v", e)
	}
	s.Stop()
	if e := b.exit(s); e.Kind != supervisor.ShutDown {
		t.Errorf("exit = %v, want a shutdown", e)
	}
	o = s.Observe()
	if o.Life != runtime.Dead || o.Exit.Kind != supervisor.ShutDown || o.ExitedAt.Before(o.StartedAt) || o.PID != 0 {
		t.Errorf("observation of what has ended: %+v", o)
	}
	for n := uint64(2); n < 5; n++ { // one after the other in the same slot
		s := b.start(r, sh("app/a", n, "exit "+strconv.FormatUint(n, 10)))
		if e := b.exit(s); !isExit(e, int(n)) {
			t.Errorf("exit of incarnation %d = %v", n, e)
		}
	}
}

func testExits(t *testing.T, b *harness) {
	r := b.runtime()
	for i, c := range []struct {
		script string
		kind   supervisor.ExitKind
		code   int
		signal syscall.Signal
	}{
		{"exit 0", supervisor.Normal, 0, 0},
		{"echo last words; exit 7", supervisor.Failure, 7, 0},
		{"kill -SEGV $$", supervisor.Failure, -1, syscall.SIGSEGV},
		{"kill -KILL $$", supervisor.Killed, -1, syscall.SIGKILL},
	} {
		e := b.exit(b.start(r, sh("app/a", uint64(i+1), c.script)))
		if e.Kind != c.kind {
			t.Errorf("%s: exit = %v", c.script, e)
			continue
		}
		var ee *proc.ExitError
		switch {
		case c.kind == supervisor.Normal:
			if e.Err != nil {
				t.Errorf("%s: error %v", c.script, e.Err)
			}
		case !errors.As(e.Err, &ee) || ee.Code != c.code || ee.Signal != c.signal:
			t.Errorf("%s: error %#v", c.script, e.Err)
		case c.code == 7 && (len(ee.LastOutput) != 1 || plaintext.Line(ee.LastOutput[0]) != "last words"):
			t.Errorf("%s: last output %q", c.script, ee.LastOutput)
		}
	}
}

func testStartThatFails(t *testing.T, b *harness) {
	r := b.runtime()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, change := range []func(*runtime.Launch){
		func(l *runtime.Launch) { l.Argv = []string{"/no/such/program"} },
		func(l *runtime.Launch) { l.Argv = []string{"no-such-program-anywhere"} },
		func(l *runtime.Launch) { l.Argv = []string{"/etc/hostname"} },
		func(l *runtime.Launch) { l.Argv = nil },
		func(l *runtime.Launch) { l.Argv = []string{"/bin/sh\x00"} },
		func(l *runtime.Launch) { l.Dir = "/no/such/directory" },
		func(l *runtime.Launch) { l.Stdin = "/no/such/file" },
		func(l *runtime.Launch) { l.Stdin = fifo },
		func(l *runtime.Launch) { l.Env = append(l.Env, "no assignment") },
	} {
		l := sh("app/a", uint64(i+1), forever)
		change(&l)
		if s, err := r.Start(b.ctx(), l); !errors.Is(err, proc.ErrCommand) {
			t.Errorf("start %d: %v, %v", i, s, err)
		}
	}
	b.start(r, sh("app/a", 100, forever))
}

func testReadiness(t *testing.T, b *harness) {
	r := b.runtime()
	l := sh("app/a", 1, "sleep 0.1; echo I am ready; "+forever)
	l.Ready = spec.Ready{Log: "^I am re+ady$", Timeout: Timeout}
	if o := b.start(r, l).Observe(); !o.Ready {
		t.Errorf("after its start: %+v", o)
	}
	file := filepath.Join(t.TempDir(), "ready")
	l = sh("app/b", 1, "sleep 0.1; echo > '"+file+"'; "+forever)
	l.Ready = spec.Ready{Exec: []string{"/bin/sh", "-c", "test -e '" + file + "'"}, Timeout: Timeout}
	b.start(r, l)
}

func testReadinessFails(t *testing.T, b *harness) {
	r := b.runtime()
	l := sh("app/a", 1, "exit 4")
	l.Ready = spec.Ready{Log: "never", Timeout: Timeout}
	_, err := r.Start(b.ctx(), l)
	var ee *proc.ExitError
	if !errors.Is(err, supervisor.ErrNotReady) || !errors.As(err, &ee) || ee.Code != 4 {
		t.Errorf("ended before it was ready: %v", err)
	}
	l = sh("app/a", 2, forever)
	l.Ready = spec.Ready{Log: "never", Timeout: 100 * time.Millisecond}
	_, err = r.Start(b.ctx(), l)
	if !errors.Is(err, supervisor.ErrStartTimeout) {
		t.Errorf("not ready in time: %v", err)
	}
	s := b.adopt(r, "app/a")
	if e := b.exit(s); e.Kind != supervisor.Failure || s.Observe().Incarnation != 2 {
		t.Errorf("exit of what was not ready in time = %v", e)
	}
}

func testStartGivenUp(t *testing.T, b *harness) {
	r := b.runtime()
	runs := filepath.Join(t.TempDir(), "runs")
	if err := syscall.Mkfifo(runs, 0o600); err != nil {
		t.Fatal(err)
	}
	l := sh("app/a", 1, "trap '' TERM; echo x > '"+runs+"'; while :; do sleep 0.1; done")
	l.Ready = spec.Ready{Log: "never", Timeout: Timeout}
	l.Grace = 200 * time.Millisecond
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("changed my mind")
	go func() {
		if _, err := os.ReadFile(runs); err != nil {
			t.Error(err)
		}
		cancel(reason)
	}()
	if _, err := r.Start(ctx, l); !errors.Is(err, reason) {
		t.Errorf("start = %v", err)
	}
	if o := b.adopt(r, "app/a").Observe(); o.Life != runtime.Dead {
		t.Errorf("after a start that was given up: %+v", o)
	}
	b.start(r, sh("app/a", 2, forever))
}

func testBusy(t *testing.T, b *harness) {
	r := b.runtime()
	s := b.start(r, sh("app/a", 1, forever))
	for _, other := range []runtime.Runtime{r, b.runtime()} {
		if _, err := other.Start(b.ctx(), sh("app/a", 2, forever)); !errors.Is(err, runtime.ErrBusy) {
			t.Errorf("start of a slot in use: %v", err)
		}
		if err := other.Remove(b.ctx(), "app/a"); !errors.Is(err, runtime.ErrBusy) {
			t.Errorf("remove of a slot in use: %v", err)
		}
	}
	if o := s.Observe(); o.Life != runtime.Alive {
		t.Errorf("after that: %+v", o)
	}
}

func testStale(t *testing.T, b *harness) {
	r := b.runtime()
	b.exit(b.start(r, sh("app/a", 5, "exit 0")))
	for _, again := range []uint64{1, 4, 5} {
		if _, err := r.Start(b.ctx(), sh("app/a", again, forever)); !errors.Is(err, runtime.ErrStale) {
			t.Errorf("start of incarnation %d after 5: %v", again, err)
		}
	}
	old := b.start(r, sh("app/a", 6, "exit 0"))
	b.exit(old)
	s := b.start(r, sh("app/a", 7, forever))
	// Requests of an old session must not reach its successor.
	old.Stop()
	old.Kill()
	if err := old.Signal(b.ctx(), syscall.SIGKILL); !errors.Is(err, runtime.ErrEnded) &&
		!errors.Is(err, runtime.ErrStale) {
		t.Errorf("signal to an incarnation that is over: %v", err)
	}
	if err := s.Signal(b.ctx(), syscall.SIGCONT); err != nil { // there is also an answer after all that
		t.Errorf("its successor: %v", err)
	}
	if o := s.Observe(); o.Life != runtime.Alive {
		t.Errorf("its successor: %+v", o)
	}
}

// testResetNumbering checks that numbers from before a reset are not mistaken for those after
// it.
func testResetNumbering(t *testing.T, b *harness) {
	r := b.runtime()
	b.exit(b.start(r, sh("app/a", 1, "echo before; exit 3")))
	l := sh("app/a", 1, forever)
	l.ResetNumbering = true
	if _, err := r.Start(b.ctx(), sh("app/a", 1, forever)); !errors.Is(err, runtime.ErrStale) {
		t.Fatalf("start of incarnation 1 after 1: %v", err)
	}
	s := b.start(r, l)
	for _, r := range []runtime.Runtime{r, b.runtime()} {
		all, err := r.List(b.ctx())
		if err != nil || len(all) != 1 || all[0].Incarnation != 1 || all[0].Life != runtime.Alive ||
			all[0].Before != nil {
			t.Errorf("list: %+v, %v", all, err)
		}
	}
	if lines, err := s.Peek(b.ctx(), 100); err != nil || !slices.Contains(lines, "before") {
		t.Errorf("the log of before: %q, %v", lines, err)
	}
	s.Kill()
	if e := b.exit(s); e.Kind != supervisor.Killed {
		t.Errorf("its end: %v", e)
	}
	b.exit(b.start(r, sh("app/a", 2, "exit 0")))
}

func testStopLadder(t *testing.T, b *harness) {
	r := b.runtime()
	l := sh("app/a", 1, "trap 'echo asked; exit 0' INT; echo running; while :; do sleep 0.05; done")
	l.StopSignal = syscall.SIGINT
	s := b.start(r, l)
	b.until(s, "running")
	s.Stop()
	if e := b.exit(s); e.Kind != supervisor.ShutDown {
		t.Errorf("an agent that obeys: %v", e)
	}
	l = sh("app/a", 2, "trap '' TERM; echo really running; while :; do sleep 0.05; done")
	l.Grace = 300 * time.Millisecond
	s = b.start(r, l)
	b.until(s, "really running")
	begin := time.Now()
	s.Stop()
	s.Stop()
	e := b.exit(s)
	if d := time.Since(begin); d < l.Grace || d > l.Grace+time.Second {
		t.Errorf("an agent that does not obey has ended after %v, its grace period is %v", d, l.Grace)
	}
	if e.Kind != supervisor.Killed {
		t.Errorf("an agent that does not obey: %v", e)
	}
	s.Stop() // no effect after the end
	s.Kill()
}

func testKill(t *testing.T, b *harness) {
	s := b.start(b.runtime(), sh("app/a", 1, "trap '' TERM; echo running; while :; do sleep 0.05; done"))
	b.until(s, "running")
	s.Kill()
	if e := b.exit(s); e.Kind != supervisor.Killed || !errors.Is(e.Err, supervisor.ErrKilled) {
		t.Errorf("exit = %v", e)
	}
}

func testSignal(t *testing.T, b *harness) {
	s := b.start(b.runtime(), sh("app/a", 1, "trap 'echo usr1' USR1; echo running; while :; do sleep 0.05; done"))
	b.until(s, "running")
	if err := s.Signal(b.ctx(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	b.until(s, "usr1")
	if err := s.Signal(b.ctx(), syscall.Signal(1000)); err == nil {
		t.Error("there is no signal 1000")
	}
	s.Kill()
	b.exit(s)
	if err := s.Signal(b.ctx(), syscall.SIGUSR1); !errors.Is(err, runtime.ErrEnded) {
		t.Errorf("signal after the end: %v", err)
	}
}

func testAdopt(t *testing.T, b *harness) {
	r := b.runtime()
	l := sh("app/a", 3, "echo hello; "+forever)
	l.Token = "the token"
	before := b.start(r, l).Observe()
	r.Close()
	r = b.runtime()
	s := b.adopt(r, "app/a")
	if o := s.Observe(); o.PID != before.PID || o.Incarnation != 3 || o.SpecHash != "f3" || o.Token != l.Token ||
		!o.Ready || !o.StartedAt.Equal(before.StartedAt) {
		t.Errorf("adopted %+v, was %+v", o, before)
	}
	if err := s.AwaitReady(b.ctx()); err != nil {
		t.Error(err)
	}
	s.Stop()
	if e := b.exit(s); e.Kind != supervisor.ShutDown {
		t.Errorf("exit = %v", e)
	}
	b.start(r, sh("app/a", 4, forever))
}

func testAdoptNothing(t *testing.T, b *harness) {
	r := b.runtime()
	if _, err := r.Adopt(b.ctx(), "app/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("adopt of nothing: %v", err)
	}
	if all, err := r.List(b.ctx()); err != nil || len(all) != 0 {
		t.Errorf("list of nothing: %v, %v", all, err)
	}
}

func testAdoptEnded(t *testing.T, b *harness) {
	r := b.runtime()
	pid := b.start(r, sh("app/a", 1, "sleep 0.1; echo last words; exit 9")).Observe().PID
	r.Close()
	b.gone(strconv.Itoa(pid))
	r = b.runtime()
	s := b.adopt(r, "app/a")
	e := b.exit(s)
	var ee *proc.ExitError
	if !isExit(e, 9) || !errors.As(e.Err, &ee) || len(ee.LastOutput) != 1 {
		t.Errorf("exit without a daemon = %v", e)
	}
	if lines, err := s.Peek(b.ctx(), 5); err != nil || len(lines) != 1 || lines[0] != "last words" {
		t.Errorf("its output: %q, %v", lines, err)
	}
	r.Close() // and once more, since reporting the end does not remove it
	if e := b.exit(b.adopt(b.runtime(), "app/a")); !isExit(e, 9) {
		t.Errorf("told again: %v", e)
	}
}

func testAdoptStarting(t *testing.T, b *harness) {
	r := b.runtime()
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	l := sh("app/a", 1, "read x < '"+gate+"'; echo ready now; "+forever)
	l.Ready = spec.Ready{Log: "ready now", Timeout: Timeout}
	starting := make(chan struct{})
	var startErr error
	go func() {
		defer close(starting)
		_, startErr = r.Start(b.ctx(), l)
	}()
	other := b.runtime()
	for alive := false; !alive; { // until the process exists
		select {
		case <-starting:
			t.Fatalf("the start has ended: %v", startErr)
		default:
		}
		all, err := other.List(b.ctx())
		if err != nil {
			t.Fatal(err)
		}
		alive = len(all) == 1 && all[0].Life == runtime.Alive
	}
	s := b.adopt(other, "app/a")
	open := make(chan error, 1)
	go func() { open <- openGate(gate) }() // waits until the script reads
	r.Close()
	b.wait("the end of the start that was given up", starting)
	if err := <-open; err != nil {
		t.Fatal(err)
	}
	if err := s.AwaitReady(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if o := s.Observe(); o.Life != runtime.Alive || !o.Ready {
		t.Errorf("%+v", o)
	}
}

func testRace(t *testing.T, b *harness) {
	rs := []runtime.Runtime{b.runtime(), b.runtime(), b.runtime()}
	for n := uint64(1); n <= 5; n++ {
		var wg sync.WaitGroup
		sessions := make([]runtime.Session, len(rs))
		errs := make([]error, len(rs))
		for i, r := range rs {
			wg.Go(func() { sessions[i], errs[i] = r.Start(b.ctx(), sh("app/a", n, forever)) })
		}
		wg.Wait()
		won := 0
		for i, err := range errs {
			switch {
			case err == nil:
				won++
				sessions[i].Stop()
				b.exit(sessions[i])
			case !errors.Is(err, runtime.ErrBusy) && !errors.Is(err, runtime.ErrStale) &&
				!errors.Is(err, runtime.ErrUnknown):
				t.Errorf("a start that lost: %v", err)
			}
		}
		if won != 1 {
			t.Fatalf("%d starts of incarnation %d have succeeded: %v", won, n, errs)
		}
	}
}

func testList(t *testing.T, b *harness) {
	r := b.runtime()
	b.start(r, sh("app/a", 1, forever))
	b.exit(b.start(r, sh("app/b", 4, "exit 3")))
	for _, r := range []runtime.Runtime{r, b.runtime()} {
		all, err := r.List(b.ctx())
		if err != nil || len(all) != 2 {
			t.Fatalf("list: %+v, %v", all, err)
		}
		for _, o := range all {
			switch {
			case o.Path == "app/a" && o.Life == runtime.Alive && o.Incarnation == 1 && o.PID > 0 && o.Ready:
			case o.Path == "app/b" && o.Life == runtime.Dead && o.Incarnation == 4 && isExit(o.Exit, 3):
			default:
				t.Errorf("listed: %+v", o)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if all, err := r.List(ctx); err == nil {
		t.Errorf("a list that was given up is an answer: %v", all)
	}
}

// A slot that was removed is gone. Its log is kept, and the next incarnation continues it.
func testRemove(t *testing.T, b *harness) {
	r := b.runtime()
	said := func(expected ...string) {
		t.Helper()
		file, err := r.Log("app/a")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := logfile.Peek(file, 10); err != nil || !slices.Equal(got, expected) {
			t.Errorf("the log is %q, %v, expected %q", got, err, expected)
		}
	}
	s := b.start(r, sh("app/a", 3, "echo one"))
	b.until(s, "one")
	b.exit(s)
	for range 2 {
		if err := r.Remove(b.ctx(), "app/a"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Adopt(b.ctx(), "app/a"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("adopt of what was removed: %v", err)
		}
		if all, err := r.List(b.ctx()); err != nil || len(all) > 0 {
			t.Errorf("%v, %v", all, err)
		}
		if all, err := r.Removed(); err != nil || !slices.Equal(all, []string{"app/a"}) {
			t.Errorf("%q, %v", all, err)
		}
		said("one")
	}
	b.until(b.start(r, sh("app/a", 1, "echo two; "+forever)), "two")
	said("one", "two")
	if all, err := r.Removed(); err != nil || len(all) > 0 {
		t.Errorf("%q, %v", all, err)
	}
}

func testClose(t *testing.T, b *harness) {
	r := b.runtime()
	s := b.start(r, sh("app/a", 1, forever))
	r.Close()
	r.Close()
	select {
	case <-s.Done():
		t.Error("the end of the runtime was taken for that of the agent")
	default:
	}
	if _, err := r.Start(b.ctx(), sh("app/b", 1, forever)); err == nil {
		t.Error("a runtime that is closed starts agents")
	}
	if o := b.adopt(b.runtime(), "app/a").Observe(); o.Life != runtime.Alive {
		t.Errorf("after that: %+v", o)
	}
}
