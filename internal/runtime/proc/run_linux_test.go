package proc

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// runFor returns a context that ends a test that hangs.
func runFor(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), testTimeout, errors.New("the test hangs"))
	t.Cleanup(cancel)
	return ctx
}

func TestRun(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<16) // a MiB, more than any pipe holds
	for name, c := range map[string]struct {
		script, input, out, err string
		code                    int
	}{
		"both streams":      {script: "echo out; echo err >&2", out: "out\n", err: "err\n"},
		"no line end":       {script: "printf out", out: "out"},
		"not text":          {script: `printf 'a\0\377b'`, out: "a\x00\xffb"},
		"nothing to read":   {script: "cat", out: ""},
		"input":             {script: "cat", input: big, out: big},
		"input is not read": {script: "echo done", input: big, out: "done\n"},
		"input is closed":   {script: "exec <&-; echo done", input: big, out: "done\n"},
		"failure":           {script: "echo why >&2; exit 3", err: "why\n", code: 3},
		"a child stays":     {script: "sleep 1000 & echo done", out: "done\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Run(runFor(t), sh(c.script), c.input, len(big))
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Stdout) != c.out || string(r.Stderr) != c.err {
				t.Errorf("%d bytes %.80q on stdout, %.80q on stderr", len(r.Stdout), r.Stdout, r.Stderr)
			}
			var exit *ExitError
			switch errors.As(r.Exit.Err, &exit); {
			case c.code == 0 && r.Exit.Kind != supervisor.Normal, c.code != 0 && (exit == nil || exit.Code != c.code):
				t.Errorf("exit is %v, want code %d", r.Exit, c.code)
			}
		})
	}
}

// A descendant that has escaped and has stdin, unread, and stdout open delays nothing.
func TestRunLeavesTheEscapedAlone(t *testing.T) {
	cmd := sh("exec 3<&0; mkfifo up; setsid sh -c 'echo $$ > up; exec sleep 1000' <&3 & exec cat up")
	cmd.Dir = t.TempDir()
	r, err := Run(runFor(t), cmd, strings.Repeat("x", 1<<20), 1000)
	pid, e := strconv.Atoi(strings.TrimSpace(string(r.Stdout)))
	if err != nil || e != nil || r.Exit.Kind != supervisor.Normal {
		t.Fatalf("%q, %v, %v", r.Stdout, r.Exit, err)
	}
	syscall.Kill(pid, syscall.SIGKILL)
}

func TestRunIsBounded(t *testing.T) {
	for _, stream := range []string{"1", "2"} {
		r, err := Run(runFor(t), sh("echo before >&"+stream+"; exec cat /dev/zero >&"+stream), "", 1000)
		if !errors.Is(err, ErrTooMuchOutput) {
			t.Errorf("stream %s: %v", stream, err)
		}
		got := append(r.Stdout, r.Stderr...)
		if len(got) != 1000 || !bytes.HasPrefix(got, []byte("before\n\x00")) {
			t.Errorf("stream %s: %d bytes, %.10q", stream, len(got), got)
		}
	}
	if _, err := Run(runFor(t), sh("printf 12345"), "", 5); err != nil {
		t.Errorf("as much as is allowed: %v", err)
	}
	if _, err := Run(runFor(t), sh("printf 123456"), "", 5); !errors.Is(err, ErrTooMuchOutput) {
		t.Errorf("one more than is allowed: %v", err)
	}
}

// When the context is done the whole group is killed, whatever it ignores.
func TestRunEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/up", 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := sh(`trap "" TERM INT; sleep 1000 & echo half; echo $! > up; wait`)
	cmd.Dir = dir
	because := errors.New("the agent is stopped")
	ctx, cancel := context.WithCancelCause(runFor(t))
	child := make(chan int, 1)
	go func() {
		b, _ := os.ReadFile(dir + "/up")
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		child <- pid
		cancel(because)
	}()
	r, err := Run(ctx, cmd, "", 1000)
	if !errors.Is(err, because) || string(r.Stdout) != "half\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
	pid := <-child
	for end := time.Now().Add(testTimeout); syscall.Kill(pid, 0) == nil; {
		if b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); bytes.Contains(b, []byte(") Z ")) {
			break // nothing reaps orphans here
		}
		if time.Now().After(end) {
			t.Fatalf("its child %d is alive", pid)
		}
	}
	if _, err := Run(ctx, sh("echo never"), "", 1000); !errors.Is(err, because) {
		t.Errorf("with a context that is over: %v", err)
	}
}

func TestRunWhatCannotBeRun(t *testing.T) {
	for _, input := range []string{"", "input"} {
		_, err := Run(runFor(t), Command{Argv: []string{"no-such-program"}}, input, 10)
		if !errors.Is(err, ErrCommand) || !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}
