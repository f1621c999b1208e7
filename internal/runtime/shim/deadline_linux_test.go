package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// wantExpired expects that the last incarnation of an agent has ended because of the deadline.
func wantExpired(t testing.TB, r *Runtime, path string) {
	t.Helper()
	s := adopt(t, r, path)
	wait(t, "the end of "+path, s.Done())
	if e := s.Exit(); e.Kind != supervisor.Failure || !errors.Is(e.Err, runtime.ErrDeadline) {
		t.Errorf("%s: exit = %v", path, e)
	}
}

// daemonArg is the role of a daemon that starts agents, says so and hangs.
const daemonArg = "daemon"

const (
	shortGrace = time.Second
	longGrace  = 3 * time.Second
)

// fleet are the agents of that daemon, with the number of their processes.
func fleet() (launches []runtime.Launch, processes []int) {
	deaf := sh("app/deaf", 1, `trap "" TERM; echo pid $$; while :; do sleep 0.05; done`)
	parent := sh("app/parent", 1, family)
	polite := sh("app/polite", 1, `trap "exit 0" TERM; echo pid $$; while :; do sleep 0.05; done`)
	patient := sh("app/patient", 1, `trap "" TERM; echo pid $$; while :; do sleep 0.05; done`)
	deaf.Grace, parent.Grace, patient.Grace = shortGrace, shortGrace, longGrace
	function := does("p/function", 1, "family")
	function.Grace = shortGrace
	return []runtime.Launch{deaf, parent, polite, patient, function}, []int{1, 4, 1, 1, 1}
}

func daemonRole(args []string) int {
	r, err := Open(Options{Dir: args[0], Deadline: args[1]})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	launches, _ := fleet()
	for _, l := range launches {
		if _, err := r.Start(context.Background(), l); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("started")
	select {}
}

// The agents of a daemon that was killed run while the deadline is moved, and end at the deadline: between it and
// their grace period after it, in parallel. Nothing is started until it is moved.
func TestDeadline(t *testing.T) {
	t.Parallel()
	l, dir := runtimetest.NewLease(t), slotsDir(t)
	const ttl = 2 * time.Second
	begin := l.Now()
	stop := l.Keep(ttl)
	daemon := exec.Command("/proc/self/exe", daemonArg, dir, l.File)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	daemon.Process.Kill()
	daemon.Wait()
	if line != "started\n" {
		t.Fatalf("the daemon says %q, %v", line, err)
	}

	watching, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	launches, processes := fleet()
	ids := make(map[string][]proc.Identity)
	for i, launch := range launches {
		ids[launch.Path] = pids(t, adopt(t, watching, launch.Path), processes[i])
	}
	watching.Close()
	deadline.Wait(nil, begin.Add(ttl+ttl/2)) // the first deadline that a shim has read has passed
	for _, all := range ids {
		l.MustRun(all...)
	}
	until := stop()
	for _, c := range []struct { // in the order in which they end
		path  string
		after time.Duration
	}{
		{"app/polite", 0}, {"p/function", 0}, {"app/deaf", shortGrace}, {"app/parent", shortGrace},
		{"app/patient", longGrace},
	} {
		l.AwaitDeaths(until.Add(c.after), until.Add(c.after+time.Second), ids[c.path]...)
	}

	r := openWith(t, Options{Dir: dir, Deadline: l.File})
	for _, launch := range launches {
		wantExpired(t, r, launch.Path)
	}
	for _, launch := range []runtime.Launch{sh("app/polite", 2, "sleep 1000"), sh("app/new", 1, "sleep 1000"),
		does("p/function", 2, ""), does("p/new", 1, "")} {
		if _, err := r.Start(ctxOf(t), launch); !errors.Is(err, runtime.ErrFenced) {
			t.Errorf("start of %s after the deadline: %v", launch.Path, err)
		}
	}
	l.Renew(time.Hour)
	for _, launch := range []runtime.Launch{sh("app/polite", 2, "sleep 1000"), does("p/function", 2, "")} {
		start(t, r, launch)
	}
}

// A shim that was paused over the deadline and the grace period ends its agents right after that.
func TestDeadlineOfAPausedShim(t *testing.T) {
	t.Parallel()
	l, dir := runtimetest.NewLease(t), slotsDir(t)
	until := l.Renew(2 * time.Second)
	r := openWith(t, Options{Dir: dir, Deadline: l.File})
	launch := sh("app/a", 1, family)
	launch.Grace = shortGrace
	s := start(t, r, launch)
	ids, shim := pids(t, s, 4), shimOf(s)
	r.Close()
	shim.Signal(syscall.SIGSTOP)
	awaitStopped(t, shim.PID)
	deadline.Wait(nil, until.Add(shortGrace+500*time.Millisecond))
	l.MustRun(ids...)
	now := l.Now()
	shim.Signal(syscall.SIGCONT)
	l.AwaitDeaths(now, now.Add(time.Second), ids...)
	wantExpired(t, openWith(t, Options{Dir: dir, Deadline: l.File}), "app/a")
}

// A shim that was started without a deadline learns it from the first daemon that has one, which need not adopt its
// agents. Its grace period has an end, even if a stop has none.
func TestDeadlineOfAnEarlierShim(t *testing.T) {
	t.Parallel()
	l, dir := runtimetest.NewLease(t), slotsDir(t)
	r := open(t, dir)
	launch := sh("app/a", 1, `trap "" TERM; echo pid $$; while :; do sleep 0.05; done`)
	launch.Grace = -1
	ids := pids(t, start(t, r, launch), 1)
	r.Close()
	until := l.Renew(time.Second)
	openWith(t, Options{Dir: dir, Deadline: l.File}).Close()
	last := until.Add(proc.DefaultGrace)
	l.AwaitDeaths(last, last.Add(time.Second), ids...)
	wantExpired(t, open(t, dir), "app/a")
}

// A function that does not end takes its process with it.
func TestDeadlineOfAFunctionThatHangs(t *testing.T) {
	t.Parallel()
	l, dir := runtimetest.NewLease(t), slotsDir(t)
	r, err := Open(Options{Dir: dir, Deadline: l.File}) // its shim fails
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	until := l.Renew(2 * time.Second)
	hangs, waits := does("p/hangs", 1, "hang"), does("p/waits", 1, "")
	hangs.Grace = shortGrace
	s := start(t, r, hangs)
	start(t, r, waits)
	if err := shimOf(s).AwaitDeath(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	if late := -until.Add(shortGrace + time.Second).Until(l.Now()); late > time.Second/2 { // to write the records
		t.Errorf("the process has ended %v too late", late)
	}
	for _, path := range []string{"p/hangs", "p/waits"} {
		wantExpired(t, r, path)
	}
}

// What a shim knows stands when the file is damaged or removed; a new shim starts nothing then.
func TestDeadlineDamaged(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(file string) error{
		"garbage":   func(file string) error { return os.WriteFile(file, []byte("soon"), 0o600) },
		"truncated": func(file string) error { return os.Truncate(file, 30) },
		"link":      func(file string) error { return errors.Join(os.Remove(file), os.Symlink(os.DevNull, file)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, dir := runtimetest.NewLease(t), slotsDir(t)
			until := l.Renew(2 * time.Second)
			r := openWith(t, Options{Dir: dir, Deadline: l.File})
			ids := pids(t, start(t, r, sh("app/a", 1, "echo pid $$; exec sleep 1000")), 1)
			if err := damage(l.File); err != nil {
				t.Fatal(err)
			}
			l.AwaitDeaths(until, until.Add(time.Second), ids...)
			wantExpired(t, r, "app/a")
			_, err := r.Start(ctxOf(t), sh("other/a", 1, "sleep 1000"))
			if !errors.Is(err, runtime.ErrFenced) || !strings.Contains(err.Error(), l.File) {
				t.Errorf("start: %v", err)
			}
			os.Remove(l.File) // it may be a link
			l.Renew(time.Hour)
			start(t, r, sh("other/a", 2, "sleep 1000"))
		})
	}
}

// A deadline that is lifted ends nothing, and neither does one that is not moved by a runtime that knows none.
func TestDeadlineLifted(t *testing.T) {
	t.Parallel()
	l, dir := runtimetest.NewLease(t), slotsDir(t)
	until := l.Renew(2 * time.Second)
	r := openWith(t, Options{Dir: dir, Deadline: l.File})
	s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
	l.Lift()
	deadline.Wait(nil, until.Add(200*time.Millisecond))
	if o := s.Observe(); o.Life != runtime.Alive {
		t.Errorf("%+v", o)
	}
	wait(t, "its end", start(t, r, sh("app/b", 1, "exit 0")).Done())
}

// A shim of an earlier version gets no launches that it would not end.
func TestUnfitForADeadline(t *testing.T) {
	t.Parallel()
	c := &conn{hello: &wire.Message{State: &wire.State{Restricts: true, Confines: true}}}
	if why := c.unfit(sh("app/a", 1, "")); why != "" {
		t.Error(why)
	}
	c.outlives = true
	if why := c.unfit(sh("app/a", 1, "")); why == "" {
		t.Error("it is fit")
	}
	if _, err := Open(Options{Dir: t.TempDir(), Deadline: "deadline"}); err == nil {
		t.Error("a relative name is no error")
	}
}
