package tmux

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
)

func TestMain(m *testing.M) {
	runtimetest.Main(m, map[string]func([]string) int{pane.Arg: pane.Main, runtimetest.SayArg: runtimetest.SayRole, "notify": notify})
}

// notify works like systemd-notify.
func notify([]string) int {
	if c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET")); err == nil {
		c.Write([]byte("READY=1"))
		time.Sleep(time.Second) // the sender must still run when it is looked up
	}
	return 0
}

// needTmux skips a test without tmux, unless all tests must run.
func needTmux(t testing.TB) {
	t.Helper()
	if _, err := Version(context.Background()); err != nil {
		exectest.Missing(t, fmt.Errorf("%w; install it with: make deps", err))
	}
}

func open(t testing.TB, dir string) *Runtime {
	t.Helper()
	r, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestConformance(t *testing.T) {
	needTmux(t)
	runtimetest.Run(t, func(t testing.TB, state string) runtime.Runtime {
		r, err := Open(Options{Dir: state})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}, runtimetest.Options{AlwaysTerminal: true, SlowOutput: true, Until: openUntil})
}

func openUntil(t testing.TB, state, file string) runtime.Runtime {
	r, err := Open(Options{Dir: state, Deadline: file})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// follow passes on the lines of a session's log, beginning with the last n.
func follow(ctx context.Context, s runtime.Session, n int, f func(line string)) error {
	return runtimetest.Lines(ctx, s.(*session).slot.logFile(), s, n, f)
}
