package proc

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/supervisor"
)

// helperEnv makes the test binary play an agent instead of running tests.
const helperEnv = "PROC_TEST_HELPER"

func TestMain(m *testing.M) {
	if h := os.Getenv(helperEnv); h != "" {
		helper(h)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// helper runs the test binary as an agent.
func helper(what string) {
	switch what {
	case "longline": // 100 MB without a newline
		chunk := []byte(strings.Repeat("0123456789abcdef", 4096))
		for range 100 << 20 / len(chunk) {
			os.Stdout.Write(chunk)
		}
		fmt.Print("\nend\n")
	case "starter": // starts an agent in its own group, which only PDEATHSIG can kill
		p, err := Start(sh("exec sleep 1000"), Output{})
		if err != nil {
			panic(err)
		}
		fmt.Println("agent", p.PID())
		select {}
	case "headless": // its first thread ends, the others continue
		endFirstThread()
		fmt.Println("headless")
		select {}
	case "binary":
		b := make([]byte, 256)
		for i := range b {
			b[i] = byte(i)
		}
		os.Stdout.Write(b)
	}
}

// testTimeout bounds every wait of these tests; only a failure takes that long.
const testTimeout = time.Minute

// lines collects output and lets a test wait for a line of it.
type lines struct {
	mu   sync.Mutex
	cond *sync.Cond
	all  []Line
}

func newLines() *lines {
	l := &lines{}
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *lines) add(line Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
	l.cond.Broadcast()
}

func (l *lines) get() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Line(nil), l.all...)
}

func (l *lines) texts() (s []string) {
	for _, line := range l.get() {
		s = append(s, line.Text)
	}
	return s
}

// await returns the rest of the first line with the prefix.
func (l *lines) await(t *testing.T, prefix string) string {
	t.Helper()
	timeout := false
	timer := time.AfterFunc(testTimeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		timeout = true
		l.cond.Broadcast()
	})
	defer timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for _, line := range l.all {
			if rest, ok := strings.CutPrefix(line.Text, prefix); ok {
				return rest
			}
		}
		if timeout {
			t.Fatalf("no line %q; have %+v", prefix, l.all)
		}
		l.cond.Wait()
	}
}

func sh(script string, args ...string) Command {
	return Command{
		Argv: append([]string{"/bin/sh", "-c", script, "sh"}, args...),
		Env:  []string{"PATH=" + os.Getenv("PATH")},
	}
}

func helperCommand(what string) Command {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	// The race detector sleeps for a second at exit unless told otherwise.
	return Command{Argv: []string{exe}, Env: append(os.Environ(), "GORACE=atexit_sleep_ms=0", helperEnv+"="+what)}
}

// start runs a command until the end of the test.
func start(t *testing.T, cmd Command) (*Process, *lines) {
	t.Helper()
	out := newLines()
	p, err := Start(cmd, Output{Line: out.add})
	if err != nil {
		t.Fatalf("start %q: %v", cmd.Argv, err)
	}
	t.Cleanup(func() {
		p.Kill()
		wait(t, "the end", p.Done())
		wait(t, "the end of the output", p.Drained())
	})
	return p, out
}

func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		t.Fatalf("%s did not come within %v", what, testTimeout)
	}
}

func exitOf(t *testing.T, p *Process) supervisor.Exit {
	t.Helper()
	wait(t, "the exit", p.Done())
	return p.Exit()
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}
