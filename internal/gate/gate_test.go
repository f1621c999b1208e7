package gate

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
)

func TestMain(m *testing.M) {
	runtimetest.Main(m, map[string]func([]string) int{"shim": server.Main})
}

const limit = time.Minute

func open(t *testing.T) (*Runner, string) {
	t.Helper()
	dir := t.TempDir()
	r := NewRunner(filepath.Join(dir, "jobs"), nil)
	r.Sweep(t.Context())
	return r, dir
}

func sh(dir, script string) Check {
	return Check{
		Argv: []string{"/bin/sh", "-c", script}, Dir: dir, Limit: limit,
		Env: []string{"PATH=/usr/bin:/bin", runtimetest.Env()},
	}
}

// input adds standard input to a check.
func input(c Check, text string) Check {
	c.Input = []byte(text)
	return c
}

// mkfifo creates a FIFO that a script reads from; release unblocks one reader.
func mkfifo(t *testing.T, name string) (release func()) {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0) // does not block without a reader
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return func() { f.WriteString("x\n") }
}

// until polls a condition.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("in vain")
		}
	}
}

func TestRunner(t *testing.T) {
	r, dir := open(t)
	for _, tt := range []struct {
		name   string
		check  Check
		open   bool
		exit   string
		output string
	}{
		{"holds", sh(dir, "echo yes"), true, "completed", "yes"},
		{"does not hold", sh(dir, "echo no >&2; exit 7"), false, "exit code 7", "no"},
		{"takes too long", Check{Argv: []string{"sleep", "4325"}, Dir: dir, Limit: 50 * time.Millisecond}, false,
			"timed out after 50ms", ""},
		{"cannot be run", Check{Argv: []string{"./missing"}, Dir: dir, Limit: limit}, false, "missing", "missing"},
		{"reads", input(sh(dir, "read x; read y; echo $y $x"), "one\ntwo\n"), true, "completed", "two one"},
		{"reads nothing", input(sh(dir, "exit 4"), strings.Repeat("x", 1<<20)), false, "exit code 4", ""},
		{"leaves a reader", input(sh(dir, "sleep 4327 <&0 >/dev/null 2>&1 & exit 5"), strings.Repeat("x", 1<<20)), false,
			"exit code 5", ""},
		{"writes much", sh(dir, "head -c 3000000 /dev/zero | tr '\\0' x; exit 3"), false, "exit code 3", "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, done := r.Wait(t.Context(), tt.check)
			output := strings.Join(got.Output, "\n")
			if !done || got.Open != tt.open || !strings.Contains(got.Exit, tt.exit) ||
				!strings.Contains(output, tt.output) || len(output) > 1<<20 {
				t.Errorf("done %v, %v, %q, %.200q (%d bytes)", done, got.Open, got.Exit, output, len(output))
			}
		})
	}
}

// No more than maxChecks checks run at a time, and one that waits for a slot gives up with its context.
func TestRunnerSlots(t *testing.T) {
	r, dir := open(t)
	fifo := filepath.Join(dir, "fifo")
	release := mkfifo(t, fifo)
	var running sync.WaitGroup
	for range maxChecks {
		running.Go(func() { r.Wait(t.Context(), sh(dir, "echo x >>began; read x <fifo")) })
	}
	until(t, func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "began"))
		return len(b) == 2*maxChecks
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, done := r.Wait(ctx, sh(dir, "true")); done {
		t.Error("a check has run without a slot")
	}
	for range maxChecks {
		release()
	}
	running.Wait()
}

// What a killed daemon has left is ended, and nothing runs before that.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs")
	left, err := proc.Start(proc.Command{
		Argv: []string{"sleep", "4326"}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", mark(jobs)},
	}, proc.Output{})
	if err != nil {
		t.Fatal(err)
	}
	r := NewRunner(jobs, nil)
	result := make(chan Result, 1)
	go func() { result <- r.Run(t.Context(), sh(dir, "true")) }()
	r.Sweep(t.Context())
	<-left.Done()
	if got := <-result; !got.Open {
		t.Errorf("%+v", got)
	}
	if err := End(t.Context(), jobs); err != nil {
		t.Error(err)
	}
}

func TestTurn(t *testing.T) {
	var turn Turn
	if !turn.Due(0) {
		t.Error("it is not due at first")
	}
	turn.Begin()
	if _, idle := turn.Next(); idle || turn.Due(time.Hour) || !turn.Running() {
		t.Error("it is due while it runs")
	}
	turn.End(time.Minute, time.Second)
	if at, idle := turn.Next(); at != time.Minute+time.Second || !idle || turn.Due(at-1) || !turn.Due(at) {
		t.Errorf("it is due at %v", at)
	}
}
