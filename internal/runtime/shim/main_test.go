package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

func TestMain(m *testing.M) {
	runtimetest.Main(m, map[string]func([]string) int{
		"shim":             func(args []string) int { return server.MainWith(openDoer, args) },
		runtimetest.SayArg: runtimetest.SayRole,
		greetArg:           greetRole,
		daemonArg:          daemonRole,
	})
}

// testTimeout bounds every wait of these tests; only a failure takes that long.
const testTimeout = 20 * time.Second

func ctxOf(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// open opens a Runtime over dir, and leaves nothing running in it.
func open(t testing.TB, dir string) *Runtime {
	t.Helper()
	return openWith(t, Options{Dir: dir})
}

func openWith(t testing.TB, o Options) *Runtime {
	t.Helper()
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		r.hosts.mu.Lock() // a start that was not waited for may still settle
		defer r.hosts.mu.Unlock()
		for _, h := range r.hosts.byName {
			if h.starts != 0 {
				t.Errorf("%d starts in progress in a shim of %s", h.starts, h.key)
			}
		}
		if b, _ := os.ReadFile(filepath.Join(o.Dir, wire.ShimLog)); len(b) > 0 {
			t.Errorf("a shim has failed:\n%s", b)
		}
	})
	return r
}

// openGroups is open with control groups; without them the test is skipped.
func openGroups(t testing.TB, dir string) *Runtime {
	t.Helper()
	r := open(t, dir)
	if r.groups.tree == nil {
		t.Skip(r.groups.why)
	}
	return r
}

// slotsDir returns a directory whose slots are emptied after the test.
func slotsDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	t.Cleanup(func() { empty(t, dir) })
	return dir
}

func empty(t testing.TB, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	r, err := Open(Options{Dir: dir})
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	all, err := r.List(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, o := range all {
		s, err := r.Adopt(ctx, o.Path)
		if err != nil {
			t.Errorf("adopt %s (%v): %v", o.Path, o, err)
			continue
		}
		s.Kill()
		wait(t, "the end of "+o.Path, s.Done())
		err = r.Remove(ctx, o.Path)
		for errors.Is(err, runtime.ErrUnknown) && ctx.Err() == nil { // the disk is slow to record its end
			err = r.Remove(ctx, o.Path)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func wait(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		t.Fatalf("%s did not come within %v", what, testTimeout)
	}
}

func sh(path string, n uint64, script string) runtime.Launch {
	return runtime.Launch{
		Path: path, Incarnation: n, Argv: []string{"/bin/sh", "-c", script, "sh"}, Dir: "/",
		Env:   append(proc.Environ(nil, proc.Self{Agent: path, Incarnation: n}), runtimetest.Env()),
		Grace: 5 * time.Second,
	}
}

// follow passes on the lines of a session's log, beginning with the last n.
func follow(ctx context.Context, s runtime.Session, n int, f func(line string)) error {
	return runtimetest.Lines(ctx, filepath.Join(s.(*session).slot.dir, logfile.Name), s, n, f)
}
