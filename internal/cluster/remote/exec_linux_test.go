package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/store"
)

// hook returns a command of an agent that runs a script in a directory.
func hook(dir, script string) runtime.Launch {
	return runtime.Launch{
		Path: "app/a", Incarnation: 1, Argv: []string{"/bin/sh", "-c", script}, Dir: dir, Grace: time.Minute,
		Env: []string{"PATH=" + os.Getenv("PATH"), "WHAT=it"},
	}
}

// pipeIn makes a pipe in a directory. Its reader has an end when no script that begins with holdPipe is left.
func pipeIn(t *testing.T, dir string) (open func() *os.File) {
	t.Helper()
	name := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() *os.File {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
}

const holdPipe = "exec 3>pipe; "

// awaitEnd waits until nothing holds the other end of a pipe.
func awaitEnd(t *testing.T, f *os.File) string {
	t.Helper()
	if err := f.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatalf("the command goes on: %v", err)
	}
	return string(text)
}

// A command runs in the directory of the node, and its output and end are those that it has there.
func TestExec(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	dir := t.TempDir()
	l := hook("/elsewhere"+dir, `pwd; echo "$WHAT" >&2; printf rest; exit 3`)
	l.Home = "/elsewhere"
	var stdout, stderr []string
	last, err := w.Exec(ctxOf(t), l, func(line proc.Line) {
		if time.Since(line.Time) > testTimeout {
			t.Errorf("%+v", line)
		}
		if line.Stream == proc.Stderr {
			stderr = append(stderr, line.Text)
		} else {
			stdout = append(stdout, line.Text)
		}
	})
	if err == nil || err.Error() != "exit code 3" {
		t.Errorf("it has ended with %v", err)
	}
	if !slices.Equal(stdout, []string{dir, "rest"}) || !slices.Equal(stderr, []string{"it"}) {
		t.Errorf("%q, %q", stdout, stderr)
	}
	if slices.Sort(last); !slices.Equal(last, []string{dir, "it", "rest"}) {
		t.Errorf("last output: %q", last)
	}
	if last, err := w.Exec(ctxOf(t), hook(dir, "echo yes"), nil); err != nil || !slices.Equal(last, []string{"yes"}) {
		t.Errorf("%q, %v", last, err)
	}
	missing := hook(dir, "")
	missing.Argv = []string{"./missing"}
	if _, err := w.Exec(ctxOf(t), missing, nil); !errors.Is(err, proc.ErrCommand) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
	if _, err := w.Exec(ctxOf(t), hook("relative", ""), nil); !errors.Is(err, proc.ErrCommand) {
		t.Errorf("a relative directory: %v", err)
	}
}

// All output comes, however much it is, and a slow reader holds up the command alone.
func TestExecFlood(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	const n = 50_000
	begun, goOn := make(chan struct{}), make(chan struct{})
	var lines int
	ended := make(chan error, 1)
	go func() {
		_, err := w.Exec(ctxOf(t), hook(t.TempDir(), fmt.Sprintf("seq -f 'line %%g of it and some more words' %d", n)),
			func(l proc.Line) {
				if lines == 0 {
					close(begun)
					<-goOn
				}
				if lines++; l.Text != fmt.Sprintf("line %d of it and some more words", lines) {
					t.Errorf("line %d: %q", lines, l.Text)
				}
			})
		ended <- err
	}()
	await(t, "the first line", begun)
	for range 3 {
		if _, err := w.Exec(ctxOf(t), hook(t.TempDir(), "exit 0"), nil); err != nil {
			t.Error(err)
		}
	}
	for _, c := range w.server.connections() {
		c.mu.Lock()
		for _, out := range c.outputs {
			if out.mu.Lock(); out.size > maxOutput+proc.MaxLine {
				t.Errorf("the node holds %d bytes", out.size)
			}
			out.mu.Unlock()
		}
		c.mu.Unlock()
	}
	close(goOn)
	if err := <-ended; err != nil || lines != n {
		t.Errorf("%d lines, %v", lines, err)
	}
}

// A command that is given up is asked to end, and killed after its grace.
func TestExecGivenUp(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	why := errors.New("enough of it")
	for _, grace := range []time.Duration{time.Minute, 100 * time.Millisecond} {
		dir := t.TempDir()
		open := pipeIn(t, dir)
		script := holdPipe + `trap 'echo asked; exit 4' TERM; echo here; while :; do sleep 0.01; done`
		if grace < time.Second {
			script = holdPipe + `trap '' TERM; echo here; while :; do sleep 1000; done`
		}
		l := hook(dir, script)
		l.Grace = grace
		ctx, cancel := context.WithCancelCause(context.Background())
		held := make(chan *os.File, 1)
		go func() { held <- open() }()
		last, err := w.Exec(ctx, l, func(line proc.Line) {
			if line.Text == "here" {
				cancel(why)
			}
		})
		if !errors.Is(err, why) || errors.Is(err, runtime.ErrUnknown) {
			t.Errorf("%v: %v", grace, err)
		}
		if asked := slices.Contains(last, "asked"); asked != (grace > time.Second) {
			t.Errorf("%v: %q", grace, last)
		}
		awaitEnd(t, <-held)
	}
	ctx, cancel := context.WithCancelCause(ctxOf(t))
	cancel(why)
	if _, err := w.Exec(ctx, hook("/", "exit 0"), nil); !errors.Is(err, why) {
		t.Error(err)
	}
}

// A command whose connection is lost ends and is not repeated. The next one of the agent waits until it has ended.
func TestExecCut(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	dir := t.TempDir()
	open := pipeIn(t, dir)
	l := hook(dir, holdPipe+`echo run >>runs; trap 'sleep 0.5; echo end >>runs; exit' TERM; echo here; while :; do sleep 0.01; done`)
	here, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := w.Exec(ctxOf(t), l, func(proc.Line) { close(here) })
		ended <- err
	}()
	pipe := open()
	await(t, "its output", here)
	w.cutAndAwait(t)
	if err := <-ended; !errors.Is(err, runtime.ErrUnknown) || !strings.Contains(err.Error(), "may have run") {
		t.Error(err)
	}
	if _, err := w.Exec(ctxOf(t), hook(dir, "echo next >>runs"), nil); err != nil {
		t.Error(err)
	}
	awaitEnd(t, pipe)
	if runs, _ := os.ReadFile(dir + "/runs"); string(runs) != "run\nend\nnext\n" {
		t.Errorf("%q", runs)
	}
}

// A command waits for a connection as long as it may, and nothing is in doubt then.
func TestExecWithoutConnection(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	w.proxy.refuse(true)
	l, _ := w.client.current()
	w.proxy.cut()
	await(t, "the loss of the connection", l.lost)
	why := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(ctxOf(t), patience+500*time.Millisecond, why)
	defer cancel()
	if _, err := w.Exec(ctx, hook("/", "exit 0"), nil); !errors.Is(err, why) || !errors.Is(err, ErrNotSent) ||
		!strings.Contains(err.Error(), "node n2 does not answer") {
		t.Error(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := w.Exec(ctxOf(t), hook("/", "exit 0"), nil)
		ended <- err
	}()
	w.proxy.refuse(false)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A node ends a command at the end of its time when it hears nothing of the controller.
func TestExecUnheard(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	dir := t.TempDir()
	open := pipeIn(t, dir)
	why := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(ctxOf(t), time.Second, why)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := w.Exec(ctx, hook(dir, holdPipe+"exec sleep 1000"), nil)
		ended <- err
	}()
	pipe := open()
	w.connected(t).hold()
	l, _ := w.client.current()
	awaitEnd(t, pipe)
	if slots.IsClosed(l.lost) {
		t.Error("it has ended because the connection was lost")
	}
	if err := <-ended; !errors.Is(err, why) {
		t.Error(err)
	}
}

// Only the controller of now runs commands, and only under the lease that it knows.
func TestExecFenced(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(w *way){
		"the lease is lost": func(w *way) { w.epoch.Store(0) },
		"another lease":     func(w *way) { w.epoch.Add(1) },
		"another controller": func(w *way) {
			f := store.Fence{Lease: "controller", Epoch: 8}
			w.mu.Lock()
			w.fence = f
			w.mu.Unlock()
			if err := w.server.check(context.Background(), &f); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWay(t)
			dir := t.TempDir()
			open := pipeIn(t, dir)
			l := hook(dir, holdPipe+"exec sleep 1000")
			if l.Lease = w.epoch.Load(); what != "another controller" {
				l.Argv[2] = holdPipe + "trap '' TERM; sleep 1000" // its grace does not count
			}
			ended := make(chan error, 1)
			go func() {
				_, err := w.Exec(ctxOf(t), l, nil)
				ended <- err
			}()
			pipe := open()
			lose(w)
			awaitEnd(t, pipe)
			for range 2 {
				var err error
				select {
				case err = <-ended:
				case <-time.After(testTimeout):
					t.Fatal("it has no answer")
				}
				if !errors.Is(err, runtime.ErrFenced) && !errors.Is(err, runtime.ErrNodeLost) &&
					!errors.Is(err, store.ErrFenced) {
					t.Error(err)
				}
				_, err = w.Exec(ctxOf(t), l, nil)
				ended <- err
			}
		})
	}
}

// A node whose daemon ends, or whose controller does, leaves no command behind.
func TestExecClosed(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(w *way){
		"the client": func(w *way) { w.client.Close() }, "the server": func(w *way) { w.server.Close() },
		"the runtime": func(w *way) { w.far.Runtime.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWay(t)
			dir := t.TempDir()
			open := pipeIn(t, dir)
			ended := make(chan error, 1)
			go func() {
				_, err := w.Exec(ctxOf(t), hook(dir, holdPipe+"exec sleep 1000"), nil)
				ended <- err
			}()
			pipe := open()
			end(w)
			awaitEnd(t, pipe)
			if err := <-ended; err == nil {
				t.Error("it has succeeded")
			}
		})
	}
}
