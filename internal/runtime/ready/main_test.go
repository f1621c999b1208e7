package ready

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/supervisor"
)

// helperEnv makes the test binary play an agent instead of running tests.
const helperEnv = "READY_TEST_HELPER"

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
	case "notify":
		notifyAll("READY=1", "WATCHDOG=1", "STOPPING=1")
	case "notify-last": // and ends after that
		notifyAll("WATCHDOG=1", "STATUS=last words", "STOPPING=1\nERRNO=5")
		os.Exit(3)
	case "notify-hostile":
		notifyAll("STATUS=\xff\x1b[31mred "+strings.Repeat("ä", 1000), "\x00", "STOPPING=1\x00X=1",
			strings.Repeat("WATCHDOG=1\n", sdnotify.MaxMessage), strings.Repeat("\n", sdnotify.MaxMessage), "STATUS")
	case "notify-flood":
		c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
		if err != nil {
			panic(err)
		}
		for i := 0; ; i++ {
			fmt.Fprintf(c, "WATCHDOG=1\nSTATUS=%d", i)
			if i == 10 {
				fmt.Println("flooding")
			}
		}
	case "notify-child":
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helperEnv+"=notify")
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
		if err := cmd.Run(); err != nil {
			os.Exit(1)
		}
	case "notify-garbage-first":
		notifyAll("", "\xff\x00\n\n=", "READY=1"+strings.Repeat("\nX=1", sdnotify.MaxMessage), "READY=0", "READY=1")
	case "serve":
		serve()
	}
}

// notifyAll sends its arguments as datagrams, then waits for the end of its stdin.
func notifyAll(msgs ...string) {
	c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	for _, m := range msgs {
		if _, err := c.Write([]byte(m)); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	fmt.Println("sent")
	io.Copy(io.Discard, os.Stdin)
}

// serveEnv is the address at which the helper "serve" listens after its standard input has
// ended.
const serveEnv = "READY_TEST_SERVE"

// serve answers 503, 302, 404, and then always 204.
func serve() {
	io.Copy(io.Discard, os.Stdin)
	l, err := net.Listen("tcp", os.Getenv(serveEnv))
	if err != nil {
		panic(err)
	}
	fmt.Println("listening", l.Addr())
	var n atomic.Int32
	answers := []int{503, 302, 404, 204}
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := min(int(n.Add(1)), len(answers))
		fmt.Println("request", at)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(answers[at-1])
	}))
}

// testTimeout bounds every wait of these tests; only a failure takes that long.
const testTimeout = time.Minute

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// lines holds the lines that a process has written, until a test takes them.
type lines chan string

// newLines has room for all that the helpers write.
func newLines() lines { return make(lines, 100) }

func (l lines) add(line proc.Line) { l <- line.Text }

// await takes lines up to the first one with the prefix, and returns the rest of that.
func (l lines) await(t *testing.T, prefix string) string {
	t.Helper()
	timeout := time.After(testTimeout)
	var others []string
	for {
		select {
		case line := <-l:
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return rest
			}
			others = append(others, line)
		case <-timeout:
			t.Fatalf("no line %q; have %q", prefix, others)
		}
	}
}

func sh(script string, args ...string) proc.Command {
	return proc.Command{
		Argv: append([]string{"/bin/sh", "-c", script, "sh"}, args...),
		Env:  []string{"PATH=" + os.Getenv("PATH")},
	}
}

func helperCommand(what string) proc.Command {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	// The race detector sleeps for a second at exit unless told otherwise.
	return proc.Command{Argv: []string{exe}, Env: append(os.Environ(), "GORACE=atexit_sleep_ms=0", helperEnv+"="+what)}
}

// start runs a command until the end of the test.
func start(t *testing.T, cmd proc.Command) (*proc.Process, lines) {
	t.Helper()
	out := newLines()
	p, err := proc.Start(cmd, proc.Output{Line: out.add})
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

func exitOf(t *testing.T, p *proc.Process) supervisor.Exit {
	t.Helper()
	wait(t, "the exit", p.Done())
	return p.Exit()
}
