package job

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

func TestMain(m *testing.M) {
	runtimetest.Main(m, map[string]func([]string) int{"shim": server.Main})
}

// testTimeout bounds every wait; only a failure takes that long.
const testTimeout = 60 * time.Second

func ctxOf(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, dir string) *Runner {
	t.Helper()
	r, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runner returns a Runner that leaves nothing behind.
func runner(t testing.TB) (*Runner, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "errands")
	r := open(t, dir)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := r.End(ctx); err != nil {
			t.Error(err)
		}
		r.Close()
	})
	return r, dir
}

func sh(id, script string) Spec {
	return Spec{ID: id, Attempt: 1, Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin", runtimetest.Env()}}
}

func start(t testing.TB, r *Runner, j Spec) *Job {
	t.Helper()
	e, err := r.Start(ctxOf(t), j)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func end(t testing.TB, e *Job) Result {
	t.Helper()
	select {
	case <-e.Done():
	case <-time.After(testTimeout):
		t.Fatal("it does not end")
	}
	return e.Result(ctxOf(t))
}

func TestOutcomes(t *testing.T) {
	r, _ := runner(t)
	for script, want := range map[string]Result{
		"echo hello; echo there >&2":    {Outcome: Completed, Output: []string{"hello", "there"}},
		"echo oh no; exit 3":            {Outcome: Failed, Code: 3, Output: []string{"oh no"}},
		"kill -9 $$":                    {Outcome: Failed, Code: -1, Signal: "SIGKILL"},
		"printf 'no end of line'":       {Outcome: Completed, Output: []string{"no end of line"}},
		`printf '\033[31mred\033[0m\n'`: {Outcome: Completed, Output: []string{"red"}},
	} {
		res := end(t, start(t, r, sh("a/"+strconv.Itoa(len(script)), script)))
		if res.Outcome != want.Outcome || res.Code != want.Code || res.Signal != want.Signal || (res.Err == nil) != (want.Outcome == Completed) ||
			len(res.Output) != len(want.Output) || res.EndedAt.Before(res.StartedAt) {
			t.Errorf("%s: %+v, want %+v", script, res, want)
		}
		for _, line := range want.Output {
			if !strings.Contains(strings.Join(res.Output, "\n"), line) {
				t.Errorf("%s: %q", script, res.Output)
			}
		}
	}
}

func TestCannotBeRun(t *testing.T) {
	r, _ := runner(t)
	j := sh("a", "")
	j.Argv = []string{"/does/not/exist"}
	if res := end(t, start(t, r, j)); res.Outcome != Failed || res.Err == nil || res.Code != -1 {
		t.Errorf("%+v", res)
	}
}

// isShims reports whether a file is one of the shims, not of a job.
func isShims(name string) bool { return strings.HasPrefix(filepath.Base(name), "shim") }

func TestInput(t *testing.T) {
	r, dir := runner(t)
	j := sh("a", "cat; read x || echo end")
	j.Input = []byte("one\ntwo\n")
	if res := end(t, start(t, r, j)); strings.Join(res.Output, " ") != "one two end" {
		t.Errorf("%q", res.Output)
	}
	if err := r.Forget(ctxOf(t), "a"); err != nil {
		t.Error(err)
	}
	for _, d := range []string{dir, dir + ".input"} {
		left, _ := filepath.Glob(d + "/*")
		if left = slices.DeleteFunc(left, isShims); len(left) > 0 {
			t.Errorf("left of a forgotten job: %v", left)
		}
	}
}

// A job that is started twice keeps its first input.
func TestInputIsLeftAlone(t *testing.T) {
	r, dir := runner(t)
	j := sh("a", "read x; read y; echo $x $y")
	j.Input = []byte("one\ntwo\n")
	start(t, r, j)
	file := filepath.Join(dir+".input", slotOf(t, "a"))
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, r, j)
	if after, err := os.Stat(file); err != nil || os.SameFile(before, after) {
		t.Errorf("the file was written over, %v", err)
	}
	if res := end(t, e); strings.Join(res.Output, " ") != "one two" {
		t.Errorf("%q", res.Output)
	}
}

// All are stopped in parallel: one after the other they would exceed the timeout.
func TestHalt(t *testing.T) {
	r, dir := runner(t)
	var all []*Job
	for i := range testTimeout/proc.DefaultGrace + 2 {
		fifo := filepath.Join(dir, "..", strconv.Itoa(int(i)))
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, start(t, r, sh(strconv.Itoa(int(i)), "trap '' TERM; echo x >"+fifo+"; while :; do sleep 98765; done")))
		if _, err := os.ReadFile(fifo); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.halt(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if res := end(t, e); res.Outcome != Stopped {
			t.Errorf("%+v", res)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	r, _ := runner(t)
	res := end(t, start(t, r, sh("a", "i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); done; head -c 100000 /dev/zero | tr '\\0' x; echo; echo last")))
	size := len(strings.Join(res.Output, "\n"))
	if len(res.Output) > maxLines || size > MaxBytes || res.Output[len(res.Output)-1] != "last" {
		t.Errorf("%d lines, %d bytes: %.100q", len(res.Output), size, res.Output)
	}
}

// alive lists the processes that have an argument.
func alive(t testing.TB, argument string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), argument) {
			pids = append(pids, f)
		}
	}
	return pids
}

// After the timeout the whole tree is killed, and that ends the run: also a child that ignores
// the signal and has the output open, and one that has left the session.
func TestTimeout(t *testing.T) {
	r, _ := runner(t)
	j := sh("a", "trap '' TERM; setsid sleep 98761 & sleep 98761 & echo started; sleep 98761")
	j.Timeout, j.Grace = 200*time.Millisecond, 100*time.Millisecond
	res := end(t, start(t, r, j))
	if res.Outcome != TimedOut || res.Code != -1 || !strings.Contains(res.Err.Error(), "200ms") {
		t.Errorf("%+v", res)
	}
	if left := alive(t, "98761"); len(left) > 0 {
		t.Errorf("still alive: %v", left)
	}
}

// The shim ends a job without a daemon, too.
func TestTimeoutWithoutARunner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "errands")
	r := open(t, dir)
	j := sh("a", "exec sleep 98762")
	j.Timeout, j.Grace = 300*time.Millisecond, time.Second
	start(t, r, j)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(dir, slotOf(t, "a"), wire.ExitFile)
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(record); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("its end is not on record")
		}
	}
	r = open(t, dir)
	defer r.Close()
	e, err := r.Find(ctxOf(t), j)
	if err != nil {
		t.Fatal(err)
	}
	if res := end(t, e); res.Outcome != TimedOut {
		t.Errorf("%+v", res)
	}
	if err := r.Forget(ctxOf(t), "a"); err != nil {
		t.Error(err)
	}
}

func slotOf(t testing.TB, id string) string {
	name, err := wire.DirName(id)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// An attempt is started once, however often Start is called.
func TestStartedOnce(t *testing.T) {
	r, dir := runner(t)
	count := filepath.Join(t.TempDir(), "count")
	j := sh("a", "echo x >>"+count+"; read line; exit 4")
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	j.Argv[2] = "echo x >>" + count + "; read line <" + fifo + "; exit 4"
	if _, err := r.Find(ctxOf(t), j); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it was started: %v", err)
	}
	first := start(t, r, j)
	second := start(t, r, j)
	other := open(t, dir)
	third := start(t, other, j)
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*Job{first, second, third, start(t, r, j)} {
		if res := end(t, e); res.Outcome != Failed || res.Code != 4 {
			t.Errorf("%+v", res)
		}
	}
	other.Close()
	if b, err := os.ReadFile(count); err != nil || string(b) != "x\n" {
		t.Errorf("it ran %q, %v", b, err)
	}
	j.Attempt = 2
	if _, err := r.Find(ctxOf(t), j); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the second attempt before it was started: %v", err)
	}
	j.Argv[2] = "exit 0"
	if res := end(t, start(t, r, j)); res.Outcome != Completed {
		t.Errorf("the second attempt: %+v", res)
	}
}

// A job ends with its shim and is reported as lost.
func TestLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "errands")
	r := open(t, dir)
	j := sh("a", "exec sleep 98763")
	start(t, r, j)
	r.Close()
	st, err := wire.ReadState(filepath.Join(dir, slotOf(t, "a")))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Shim.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	defer r.Close()
	var e *Job
	for e == nil {
		if e, err = r.Find(ctxOf(t), j); errors.Is(err, fs.ErrNotExist) || ctxOf(t).Err() != nil {
			t.Fatal(err)
		}
	}
	if res := end(t, e); res.Outcome != Lost {
		t.Errorf("%+v", res)
	}
	if left := alive(t, "98763"); len(left) > 0 {
		t.Errorf("still alive: %v", left)
	}
	if err := r.Forget(ctxOf(t), "a"); err != nil {
		t.Error(err)
	}
}

func TestStop(t *testing.T) {
	r, _ := runner(t)
	e := start(t, r, sh("a", "exec sleep 98764"))
	if err := r.Forget(ctxOf(t), "a"); err == nil {
		t.Error("one that lives was forgotten")
	}
	e.Stop()
	if res := end(t, e); res.Outcome != Stopped || res.Err == nil {
		t.Errorf("%+v", res)
	}
}

// The processes that the shell of a job has started also have the grace period, after a timeout
// and after a stop.
func TestGraceOfTheRest(t *testing.T) {
	r, _ := runner(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "w.sh")
	script := "#!/bin/sh\ntrap 'sleep 0.3; echo saved > \"$1\"; exit 0' TERM\n: > \"$1.begun\"\nwhile :; do sleep 0.05; done\n"
	exectest.Write(t, file, script)
	for name, want := range map[string]Outcome{"late": TimedOut, "stopped": Stopped} {
		saved := filepath.Join(dir, name)
		j := sh(name, "FOO=bar '"+file+"' '"+saved+"'")
		j.Grace = 2 * testTimeout
		if want == TimedOut {
			j.Timeout = time.Second
		}
		e := start(t, r, j)
		for deadline := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(saved + ".begun"); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not begin", name)
			}
		}
		if want == Stopped {
			e.Stop()
		}
		if res := end(t, e); res.Outcome != want {
			t.Errorf("%s: %+v", name, res)
		}
		if _, err := os.Stat(saved); err != nil {
			t.Errorf("%s: killed while it saved its work: %v", name, err)
		}
	}
}
