package inproc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/supervisor"
)

func open(t *testing.T, output func(string, uint64, proc.Line)) *Runtime {
	t.Helper()
	r, err := Open(Options{Dir: filepath.Join(t.TempDir(), "inside"), Output: output})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func obeys(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func launch(path string, n uint64, run func(context.Context) error) runtime.Launch {
	return runtime.Launch{Path: path, Incarnation: n, Run: run}
}

func TestExits(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		run  func(context.Context) error
		end  func(runtime.Session)
		want supervisor.ExitKind
		says string
	}{
		"normal":   {func(context.Context) error { return nil }, nil, supervisor.Normal, ""},
		"failure":  {func(context.Context) error { return broken }, nil, supervisor.Failure, "broken"},
		"panic":    {func(context.Context) error { panic("oh") }, nil, supervisor.Panicked, "panic: oh"},
		"stopped":  {obeys, runtime.Session.Stop, supervisor.ShutDown, ""},
		"killed":   {obeys, runtime.Session.Kill, supervisor.ShutDown, ""},
		"signal":   {obeys, func(s runtime.Session) { s.Signal(context.Background(), syscall.SIGTERM) }, supervisor.ShutDown, ""},
		"shutdown": {func(context.Context) error { return fmt.Errorf("x: %w", supervisor.ErrShutdown) }, nil, supervisor.ShutDown, ""},
		// A failure after a stop is still a failure.
		"fails at the end": {func(ctx context.Context) error { <-ctx.Done(); return broken }, runtime.Session.Stop, supervisor.Failure, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, nil)
			s, err := r.Start(t.Context(), launch("p/a", 1, c.run))
			if err != nil {
				t.Fatal(err)
			}
			if c.end != nil {
				if o := s.Observe(); o.Life != runtime.Alive || !o.Ready || o.PID != 0 {
					t.Errorf("%+v", o)
				}
				c.end(s)
			}
			<-s.Done()
			if x := s.Exit(); x.Kind != c.want || !strings.Contains(fmt.Sprint(x.Err), c.says) {
				t.Errorf("%v", x)
			}
			if o := s.Observe(); o.Life != runtime.Dead || o.Ready || o.ExitedAt.IsZero() {
				t.Errorf("%+v", o)
			}
		})
	}
}

// Incarnations run one after the other, never two at once, and never with an old number.
func TestSlots(t *testing.T) {
	r := open(t, nil)
	ctx := t.Context()
	if _, err := r.Adopt(ctx, "p/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	first, err := r.Start(ctx, launch("p/a", 2, obeys))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(ctx, launch("p/a", 3, obeys)); !errors.Is(err, runtime.ErrBusy) {
		t.Errorf("%v", err)
	}
	if err := r.Remove(ctx, "p/a"); !errors.Is(err, runtime.ErrBusy) {
		t.Errorf("%v", err)
	}
	if s, err := r.Adopt(ctx, "p/a"); err != nil || s != first {
		t.Errorf("%v", err)
	}
	if err := r.Ready(ctx, "p/a", 2); err != nil {
		t.Error(err)
	}
	if err := r.Ready(ctx, "p/a", 1); !errors.Is(err, runtime.ErrStale) {
		t.Errorf("%v", err)
	}
	first.Stop()
	<-first.Done()
	if err := r.Ready(ctx, "p/a", 2); !errors.Is(err, runtime.ErrEnded) {
		t.Errorf("%v", err)
	}
	if _, err := r.Start(ctx, launch("p/a", 2, obeys)); !errors.Is(err, runtime.ErrStale) {
		t.Errorf("%v", err)
	}
	again := launch("p/a", 1, obeys)
	again.ResetNumbering = true
	if _, err := r.Start(ctx, again); err != nil {
		t.Error(err)
	}
	if _, err := r.Start(ctx, runtime.Launch{Path: "p/b", Incarnation: 1, Argv: []string{"true"}}); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if all, err := r.List(ctx); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// An incarnation that was killed and does not end is abandoned, so its successor may start.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Open(Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		s, err := r.Start(t.Context(), launch("p/a", 1, func(context.Context) error { <-release; return nil }))
		if err != nil {
			t.Fatal(err)
		}
		s.Stop()
		if _, err := r.Start(t.Context(), launch("p/a", 2, obeys)); !errors.Is(err, runtime.ErrBusy) {
			t.Errorf("%v", err)
		}
		s.Kill()
		if _, err := r.Start(t.Context(), launch("p/a", 2, obeys)); err != nil {
			t.Errorf("%v", err)
		}
		close(release)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Start(t.Context(), launch("p/b", 1, obeys)); err == nil {
			t.Error("a closed runtime starts something")
		}

		stuck, err := Open(Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		hold := make(chan struct{})
		stuck.Start(t.Context(), launch("p/a", 1, func(context.Context) error { <-hold; return nil }))
		if err := stuck.Close(); err == nil || !strings.Contains(err.Error(), "1 agents") {
			t.Errorf("%v", err)
		}
		close(hold)
	})
}

// The output of agents is kept for each of them, also that of agents they have created.
func TestOutput(t *testing.T) {
	var mu sync.Mutex
	var told []string
	r := open(t, func(path string, n uint64, l proc.Line) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprint(path, "#", n, " ", l.Stream, " ", l.Text))
	})
	r.Say("p/a", proc.Stdout, "the slot is empty")
	s, err := r.Start(t.Context(), launch("p/a", 1, obeys))
	if err != nil {
		t.Fatal(err)
	}
	r.Say("p/a", proc.Stdout, "one")
	r.Say("p/a/Sub-2", proc.Stderr, "two\nthree")
	r.Say("p/ab", proc.Stdout, "not its own")
	if lines, err := s.Peek(t.Context(), 2); err != nil || !slices.Equal(lines, []string{"Sub-2: two", "three"}) {
		t.Errorf("%q, %v", lines, err)
	}
	if want := []string{"p/a#1 stdout one", "p/a#1 stderr Sub-2: two", "p/a#1 stderr three"}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
	if at, err := s.LastActivity(t.Context()); err != nil || time.Since(at) > time.Hour {
		t.Errorf("%v, %v", at, err)
	}

	file, err := r.Log("p/a")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 10)
	over := make(chan error, 1)
	go func() { over <- runtimetest.Lines(t.Context(), file, s, 1, func(line string) { lines <- line }) }()
	if got := <-lines; got != "three" {
		t.Errorf("%q", got)
	}
	r.Say("p/a", proc.Stdout, "four")
	if got := <-lines; got != "four" {
		t.Errorf("%q", got)
	}
	s.Stop()
	if err := <-over; err != nil { // following ends with the incarnation
		t.Error(err)
	}
	if err := r.Remove(t.Context(), "p/a"); err != nil {
		t.Error(err)
	}
}

// An agent that reports its readiness has started then. One that ends before has failed to
// start, and one whose start is given up is stopped.
func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		start := func(path string, run func(context.Context) error) (runtime.Session, error) {
			l := launch(path, 1, run)
			l.Ready.Notify, l.Grace = true, time.Second
			return r.Start(ctx, l)
		}
		s, err := start("p/a", func(ctx context.Context) error {
			time.Sleep(time.Minute)
			if err := r.Ready(ctx, "p/a", 1); err != nil {
				t.Error(err)
			}
			return obeys(ctx)
		})
		if err != nil || !s.Observe().Ready {
			t.Errorf("%v", err)
		}
		broken := errors.New("broken")
		if _, err := start("p/b", func(context.Context) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		if _, err := start("p/c", func(context.Context) error { return nil }); !errors.Is(err, supervisor.ErrNotReady) {
			t.Errorf("%v", err)
		}
		time.AfterFunc(time.Minute, cancel)
		if _, err := start("p/d", obeys); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if last, err := r.Adopt(t.Context(), "p/d"); err != nil || last.Observe().Life != runtime.Dead {
			t.Errorf("%v", err)
		}
	})
}

// A function cannot be limited, so it does not run.
func TestPathsAreRefused(t *testing.T) {
	l := launch("app/a", 1, func(context.Context) error {
		t.Error("it runs")
		return nil
	})
	l.Paths = landlock.New([]string{}, nil)
	if _, err := open(t, nil).Start(t.Context(), l); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("%v, expected %v", err, runtime.ErrUnsupported)
	}
}
