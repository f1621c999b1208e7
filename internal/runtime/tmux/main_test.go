package tmux

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == pane.Arg {
		os.Exit(pane.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "notify" { // as systemd-notify does
		if c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET")); err == nil {
			c.Write([]byte("READY=1"))
			time.Sleep(time.Second) // its sender must be there to be asked for
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == runtimetest.SayArg {
		runtimetest.Say(os.Args[2:])
		os.Exit(0)
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if left := runtimetest.LeftBehind(); code == 0 && len(left) > 0 {
		fmt.Fprintln(os.Stderr, "processes left behind:", left)
		code = 1
	}
	os.Exit(code)
}

// needTmux skips a test where there is no tmux, but not where all tests have to run.
func needTmux(t testing.TB) {
	t.Helper()
	if _, err := Version(context.Background()); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("%v (tools/deps.sh installs what the tests need)", err)
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
	}, runtimetest.Options{AlwaysTerminal: true, SlowOutput: true})
}
