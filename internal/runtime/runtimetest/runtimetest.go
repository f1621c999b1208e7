// Package runtimetest tests every kind of runtime against the interface of package runtime: the
// same tests, with real processes, for all kinds.
package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options list what a kind cannot do.
type Options struct {
	// AlwaysTerminal means that all agents have a terminal, requested or not.
	AlwaysTerminal bool
	// SlowOutput skips the test that writes 100 MB.
	SlowOutput bool
	// Without names tests that are skipped.
	Without []string
	// Until opens a Runtime with a deadline. Without it the tests of that are skipped.
	Until OpenUntil
}

// Timeout bounds every wait; only a failure takes that long.
const Timeout = 30 * time.Second

// markEnv is in the environment of all agents of a test process.
const markEnv = "RUNTIMETEST"

// Env returns the environment entry that all agents of these tests have.
func Env() string { return markEnv + "=" + strconv.Itoa(os.Getpid()) }

// LeftBehind lists the processes with the environment entry Env. Call it at the end of TestMain.
func LeftBehind() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for kv := range bytes.SplitSeq(b, []byte{0}) {
			if string(kv) == Env() {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Open opens a Runtime over a directory. A second one finds what the first one has started.
type Open func(t testing.TB, state string) runtime.Runtime

// Run runs the suite.
func Run(t *testing.T, open Open, o Options) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *harness)
	}{
		{"StartAndEnd", testStartAndEnd},
		{"Exits", testExits},
		{"StartThatFails", testStartThatFails},
		{"Readiness", testReadiness},
		{"ReadinessFails", testReadinessFails},
		{"StartGivenUp", testStartGivenUp},
		{"Busy", testBusy},
		{"Stale", testStale},
		{"ResetNumbering", testResetNumbering},
		{"StopLadder", testStopLadder},
		{"RestHasTheGracePeriod", testRest},
		{"RestIsKilled", testRestKilled},
		{"RestOfAdopted", testRestOfAdopted},
		{"Kill", testKill},
		{"Signal", testSignal},
		{"Adopt", testAdopt},
		{"AdoptNothing", testAdoptNothing},
		{"AdoptWhatEndedUnwatched", testAdoptEnded},
		{"AdoptWhileStarting", testAdoptStarting},
		{"RaceToStart", testRace},
		{"List", testList},
		{"Remove", testRemove},
		{"Close", testClose},
		{"HostileNames", testHostileNames},
		{"HostileOutput", testHostileOutput},
		{"Peek", testPeek},
		{"Follow", testFollow},
		{"Activity", testActivity},
		{"Write", testWrite},
		{"Attach", testAttach},
		{"Environment", testEnvironment},
		{"NoNewPrivileges", testNoNewPrivileges},
		{"Paths", testPaths},
		{"Said", testSaid},
		{"SaidReady", testSaidReady},
		{"NoDescendantStays", testDescendants},
		{"Deadline", testDeadline},
		{"DeadlineAdopted", testDeadlineAdopted},
		{"DeadlineWhenTheNodeLeaves", testNodeLeaves},
		{"Huge", testHuge},
	} {
		if c.name == "Huge" && o.SlowOutput {
			continue // this kind does not promise that
		}
		if strings.HasPrefix(c.name, "Deadline") && o.Until == nil || slices.Contains(o.Without, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			b := &harness{T: t, open: open, Options: o, state: t.TempDir()}
			t.Cleanup(b.clear)
			c.test(t, b)
		})
	}
}

// harness is the environment of a test.
type harness struct {
	*testing.T
	Options
	open  Open
	state string
	last  runtime.Runtime // opened last
}

// runtime opens a Runtime and closes it at the end of the test.
func (b *harness) runtime() runtime.Runtime {
	b.Helper()
	r := b.open(b.T, b.state)
	b.Cleanup(func() { r.Close() })
	b.last = r
	return r
}

func (b *harness) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	b.Cleanup(cancel)
	return ctx
}

// clear kills and removes all agents that a test has left.
func (b *harness) clear() {
	r := b.open(b.T, b.state)
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	all, err := r.List(ctx)
	if err != nil {
		b.Error("list at the end:", err)
	}
	for _, o := range all {
		s, err := r.Adopt(ctx, o.Path)
		if err != nil {
			b.Errorf("adopt %.80q at the end: %v", o.Path, err)
			continue
		}
		s.Kill()
		b.wait("the end of "+o.Path, s.Done())
		if err := r.Remove(ctx, o.Path); err != nil {
			b.Errorf("remove %.80q at the end: %v", o.Path, err)
		}
	}
}

func (b *harness) wait(what string, c <-chan struct{}) {
	b.Helper()
	select {
	case <-c:
	case <-time.After(Timeout):
		b.Fatalf("%s did not come within %v", what, Timeout)
	}
}

// sh returns the launch of a shell script.
func sh(path string, n uint64, script string) runtime.Launch {
	return runtime.Launch{
		Path: path, Incarnation: n, SpecHash: fmt.Sprint("f", n),
		Argv: []string{"/bin/sh", "-c", script, "sh"}, Dir: "/",
		Env:   append(proc.Environ(nil, proc.Self{Agent: path, Incarnation: n}), Env()),
		Grace: 10 * time.Second,
	}
}

// forever is a script that ends on SIGTERM.
const forever = "exec sleep 100000"

func (b *harness) start(r runtime.Runtime, l runtime.Launch) runtime.Session {
	b.Helper()
	s, err := r.Start(b.ctx(), l)
	if err != nil {
		b.Fatalf("start: %v", err)
	}
	return s
}

func (b *harness) adopt(r runtime.Runtime, path string) runtime.Session {
	b.Helper()
	s, err := r.Adopt(b.ctx(), path)
	if err != nil {
		b.Fatalf("adopt: %v", err)
	}
	return s
}

func (b *harness) exit(s runtime.Session) supervisor.Exit {
	b.Helper()
	b.wait("the end", s.Done())
	return s.Exit()
}

// until waits for a line of output that begins with prefix, and returns the rest of it.
func (b *harness) until(s runtime.Session, prefix string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	found, rest := false, ""
	err := Lines(ctx, b.log(s), s, 1000, func(line string) {
		if r, ok := strings.CutPrefix(plaintext.Line(line), prefix); ok && !found {
			found, rest = true, strings.TrimSpace(r)
			cancel()
		}
	})
	if !found {
		lines, _ := s.Peek(context.Background(), 20)
		b.Fatalf("no line of output begins with %q (%v); there is %q", prefix, err, lines)
	}
	return rest
}

// gone waits until a process has ended.
func (b *harness) gone(pid string) {
	b.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		b.Fatalf("no pid: %q", pid)
	}
	id, err := proc.Identify(n)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := id.AwaitDeath(ctx); err != nil {
		syscall.Kill(n, syscall.SIGKILL)
		b.Errorf("process %d is still there: %v", n, err)
	}
}

// buffer collects output and lets a test wait for a part of it.
type buffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{}
}

func (w *buffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.more != nil {
		close(w.more)
		w.more = nil
	}
	return w.b.Write(p)
}

func (w *buffer) await(b *harness, part string) {
	b.Helper()
	late := time.After(Timeout)
	for {
		w.mu.Lock()
		s := w.b.String()
		if w.more == nil {
			w.more = make(chan struct{})
		}
		more := w.more
		w.mu.Unlock()
		if strings.Contains(s, part) {
			return
		}
		select {
		case <-more:
		case <-late:
			b.Fatalf("%q has not come; there is %q", part, s)
		}
	}
}

func isExit(e supervisor.Exit, code int) bool {
	var ee *proc.ExitError
	return e.Kind == supervisor.Failure && errors.As(e.Err, &ee) && ee.Code == code
}
