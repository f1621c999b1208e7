package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestExit(t *testing.T) {
	tests := []struct {
		name   string
		script string
		kind   supervisor.ExitKind
		code   int
		signal syscall.Signal
	}{
		{name: "success", script: "exit 0", kind: supervisor.Normal},
		{name: "failure", script: "exit 3", kind: supervisor.Failure, code: 3},
		{name: "signal", script: "kill -SEGV $$", kind: supervisor.Failure, code: -1, signal: syscall.SIGSEGV},
		{name: "SIGTERM from elsewhere", script: "kill -TERM $$", kind: supervisor.Failure, code: -1, signal: syscall.SIGTERM},
		{name: "SIGKILL by another process", script: "kill -KILL $$", kind: supervisor.Killed, code: -1, signal: syscall.SIGKILL},
		{name: "shell's code for a signal", script: "exit 143", kind: supervisor.Failure, code: 143},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := start(t, sh(tt.script))
			e := exitOf(t, p)
			if e.Kind != tt.kind {
				t.Fatalf("exit = %v, want %v", e, tt.kind)
			}
			if tt.kind == supervisor.Normal {
				if e.Err != nil {
					t.Errorf("Err = %v, want none", e.Err)
				}
				return
			}
			var ee *ExitError
			if !errors.As(e.Err, &ee) {
				t.Fatalf("Err = %#v, want an *ExitError", e.Err)
			}
			if ee.Code != tt.code || ee.Signal != tt.signal {
				t.Errorf("code %d, %v; want code %d, %v", ee.Code, ee.Signal, tt.code, tt.signal)
			}
		})
	}
}

func TestStop(t *testing.T) {
	tests := []struct {
		name   string
		script string // prints "ready" when it is
		signal syscall.Signal
		want   supervisor.ExitKind
	}{
		{name: "dies of the signal", script: "echo ready; exec sleep 1000", want: supervisor.ShutDown},
		{name: "handles it and exits 0", script: `trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done`, want: supervisor.ShutDown},
		{name: "handles it and exits 143", script: `trap 'exit 143' TERM; echo ready; while :; do sleep 0.05; done`, want: supervisor.ShutDown},
		{name: "fails while stopping", script: `trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done`, want: supervisor.Failure},
		{name: "code of another signal", script: `trap 'exit 130' TERM; echo ready; while :; do sleep 0.05; done`, want: supervisor.Failure},
		{name: "own stop signal", script: `trap '' TERM; trap 'exit 130' INT; echo ready; while :; do sleep 0.05; done`, signal: syscall.SIGINT, want: supervisor.ShutDown},
		{name: "suspended", script: `echo ready; kill -STOP $$`, want: supervisor.ShutDown},
		{name: "killed by another process meanwhile", script: `trap 'kill -KILL $$' TERM; echo ready; while :; do sleep 0.05; done`, want: supervisor.Killed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := sh(tt.script)
			cmd.StopSignal = tt.signal
			p, out := start(t, cmd)
			out.await(t, "ready")
			p.Stop()
			if e := exitOf(t, p); e.Kind != tt.want {
				t.Errorf("exit = %v, want %v", e, tt.want)
			}
			p.Stop() // no effect after the end
			p.Kill()
			if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("Signal after the end = %v, want os.ErrProcessDone", err)
			}
		})
	}
}

// The stop signal reaches the whole group, not only the leader.
func TestStopSignalsTheGroup(t *testing.T) {
	p, out := start(t, sh(`trap : TERM; sh -c 'trap "echo member; exit 0" TERM; echo ready; while :; do sleep 0.05; done' & wait; wait`))
	out.await(t, "ready")
	p.Stop()
	out.await(t, "member")
	if e := exitOf(t, p); e.Kind != supervisor.ShutDown {
		t.Errorf("exit = %v", e)
	}
}

func TestKill(t *testing.T) {
	p, out := start(t, sh(`trap '' TERM; echo ready; while :; do sleep 1000; done`))
	out.await(t, "ready")
	p.Stop()
	p.Kill()
	if e := exitOf(t, p); e.Kind != supervisor.Killed || !errors.Is(e.Err, supervisor.ErrKilled) {
		t.Errorf("exit = %v, want killed by the supervisor", e)
	}
}

func TestLastOutput(t *testing.T) {
	p, _ := start(t, sh(`for i in $(seq 1 50); do echo "line $i"; done; printf 'no line end' >&2; exit 1`))
	var ee *ExitError
	if e := exitOf(t, p); !errors.As(e.Err, &ee) {
		t.Fatalf("exit = %v, want an *ExitError", e)
	}
	var stdout, stderr []string
	for _, s := range ee.LastOutput {
		if strings.HasPrefix(s, "line ") {
			stdout = append(stdout, s)
		} else {
			stderr = append(stderr, s)
		}
	}
	if len(stdout) != DefaultTail || stdout[0] != "line 31" || stdout[DefaultTail-1] != "line 50" ||
		!reflect.DeepEqual(stderr, []string{"no line end"}) {
		t.Errorf("last output = %q", ee.LastOutput)
	}
}

func TestOutput(t *testing.T) {
	p, out := start(t, sh(`echo one; echo two >&2; printf 'three\r\n\n'; printf 'bad \377\376 bytes\n'; printf 'open'`))
	exitOf(t, p)
	wait(t, "the end of the output", p.Drained())
	var stdout, stderr []string
	for _, l := range out.get() {
		if l.Time.IsZero() || l.More {
			t.Errorf("line %+v", l)
		}
		if l.Stream == Stdout {
			stdout = append(stdout, l.Text)
		} else {
			stderr = append(stderr, l.Text)
		}
	}
	if want := []string{"one", "three", "", "bad \uFFFD bytes", "open"}; !reflect.DeepEqual(stdout, want) {
		t.Errorf("stdout = %q, want %q", stdout, want)
	}
	if want := []string{"two"}; !reflect.DeepEqual(stderr, want) {
		t.Errorf("stderr = %q, want %q", stderr, want)
	}
}

// 100 MB in one line come in parts, with bounded memory.
func TestLongLine(t *testing.T) {
	var size, parts, ends int
	var last string
	p, err := Start(helperCommand("longline"), Output{Line: func(l Line) {
		if len(l.Text) > MaxLine {
			t.Errorf("a part of %d bytes", len(l.Text))
		}
		last = l.Text
		if l.Text != "end" {
			size += len(l.Text)
			parts++
			if !l.More {
				ends++
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	wait(t, "the end of the output", p.Drained())
	runtime.GC()
	runtime.ReadMemStats(&after)
	if e := exitOf(t, p); e.Kind != supervisor.Normal {
		t.Fatal(e)
	}
	if size != 100<<20 || ends != 1 || parts != 100<<20/MaxLine || last != "end" {
		t.Errorf("%d bytes in %d parts, %d ends, last line %.20q", size, parts, ends, last)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
}

func TestBinaryOutput(t *testing.T) {
	p, out := start(t, helperCommand("binary"))
	if e := exitOf(t, p); e.Kind != supervisor.Normal {
		t.Fatal(e)
	}
	wait(t, "the end of the output", p.Drained())
	got := out.texts()
	if len(got) != 2 || len(got[0]) != 10 || !strings.HasSuffix(got[1], "\x7f\uFFFD") {
		t.Errorf("lines = %q", got)
	}
}

// A reader that blocks delays the agent's writes, not its exit, and gets every line in the end.
func TestSlowReader(t *testing.T) {
	gate := make(chan struct{})
	var got []string
	p, err := Start(sh(`echo 1; echo 2; echo 3; exit 5`), Output{Line: func(l Line) {
		<-gate
		got = append(got, l.Text)
	}})
	if err != nil {
		t.Fatal(err)
	}
	var ee *ExitError
	if e := exitOf(t, p); !errors.As(e.Err, &ee) || ee.Code != 5 {
		t.Errorf("exit = %v", e)
	}
	close(gate)
	wait(t, "the end of the output", p.Drained())
	if want := []string{"1", "2", "3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("lines = %q, want %q", got, want)
	}
}

func TestStdin(t *testing.T) {
	p, _ := start(t, sh(`read x && exit 1; exit 0`))
	if e := exitOf(t, p); e.Kind != supervisor.Normal {
		t.Errorf("stdin is not /dev/null: %v", e)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := sh(`read x; echo "got $x"`)
	cmd.Stdin = r
	_, out := start(t, cmd)
	w.WriteString("hello\n")
	w.Close()
	if got := out.await(t, "got "); got != "hello" {
		t.Errorf("got %q", got)
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "echo\n", 0o644)
	noShebang := file("no-shebang", "echo\n", 0o755)
	noInterpreter := file("no-interpreter", "#!/does/not/exist\n", 0o755)
	tests := []struct {
		name string
		cmd  Command
		is   error
		says string
	}{
		{"nothing", Command{}, nil, "no program named"},
		{"empty program", Command{Argv: []string{""}}, nil, "no program named"},
		{"not in PATH", Command{Argv: []string{"no-such-program"}, Env: []string{"PATH=/bin:/usr/bin"}}, fs.ErrNotExist, "not found in PATH /bin:/usr/bin"},
		{"relative PATH", Command{Argv: []string{"sh"}, Env: []string{"PATH=bin:."}, Dir: "/"}, fs.ErrNotExist, "not found"},
		{"no such file", Command{Argv: []string{"/no/such/file"}}, fs.ErrNotExist, "/no/such/file"},
		{"no such file in dir", Command{Argv: []string{"./nope"}, Dir: dir}, fs.ErrNotExist, dir + "/nope"},
		{"directory", Command{Argv: []string{dir}}, syscall.EISDIR, "is a directory"},
		{"not executable", Command{Argv: []string{plain}}, fs.ErrPermission, "not executable"},
		{"not executable in PATH", Command{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}}, fs.ErrPermission, "not executable"},
		{"no #! line", Command{Argv: []string{noShebang}}, syscall.ENOEXEC, "#! line"},
		{"no interpreter", Command{Argv: []string{noInterpreter}}, syscall.ENOENT, "interpreter"},
		{"no such dir", Command{Argv: []string{"/bin/sh"}, Dir: "/no/such/dir"}, fs.ErrNotExist, "working directory"},
		{"dir is a file", Command{Argv: []string{"/bin/sh"}, Dir: plain}, syscall.ENOTDIR, "working directory"},
		{"NUL in argument", Command{Argv: []string{"/bin/sh", "a\x00b"}}, nil, "argument 1 contains a NUL"},
		{"bad environment", Command{Argv: []string{"/bin/sh"}, Env: []string{"=x"}}, nil, "KEY=value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Start(tt.cmd, Output{})
			if err == nil {
				p.Kill()
				t.Fatal("it started")
			}
			if !errors.Is(err, ErrCommand) || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error = %v, want %v and %q", err, tt.is, tt.says)
			}
		})
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	exectest.Write(t, filepath.Join(dir, "agent"), "#!/bin/sh\nexit 6\n")
	env := []string{"PATH=" + dir + ":/bin"}
	if got, err := LookPath("agent", "", env); err != nil || got != filepath.Join(dir, "agent") {
		t.Errorf("LookPath = %q, %v", got, err)
	}
	for _, cmd := range []Command{
		{Argv: []string{"agent"}, Env: env},
		{Argv: []string{"./agent"}, Dir: dir},
		{Argv: []string{filepath.Join(dir, "agent")}},
	} {
		p, _ := start(t, cmd)
		var ee *ExitError
		if e := exitOf(t, p); !errors.As(e.Err, &ee) || ee.Code != 6 {
			t.Errorf("%q: %v", cmd.Argv, e)
		}
	}
}

func TestClassifyIsCleanOnlyAfterStop(t *testing.T) {
	noTail := func() []string { return nil }
	term := syscall.WaitStatus(syscall.SIGTERM)
	if e := Classify(term, Asked{Sent: 1 << 15}, noTail); e.Kind != supervisor.Failure {
		t.Errorf("SIGTERM sent by Signal alone = %v, want a failure", e)
	}
	if e := Classify(term, Asked{Stop: true, Sent: 1 << 15}, noTail); e.Kind != supervisor.ShutDown {
		t.Errorf("SIGTERM after Stop = %v", e)
	}
	if e := Classify(term|0x80, Asked{}, noTail); !e.Err.(*ExitError).CoreDumped {
		t.Errorf("core dump not seen: %v", e)
	}
	kill := syscall.WaitStatus(syscall.SIGKILL)
	if e := Classify(kill, Asked{Stop: true, Sent: 1 << 9}, noTail); e.Kind != supervisor.ShutDown {
		t.Errorf("SIGKILL as the stop signal = %v", e)
	}
}
