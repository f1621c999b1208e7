package proc

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/supervisor"
)

func TestNotify(t *testing.T) {
	for _, what := range []string{"notify", "notify-child", "notify-garbage-first"} {
		t.Run(what, func(t *testing.T) {
			cmd := helperCommand(what)
			stdin, release := gatedStdin(t)
			cmd.Stdin = stdin
			p, out, err := startChild(t, patient(t), cmd, Notify{})
			if err != nil {
				t.Fatal(err)
			}
			out.await(t, "sent") // also what was sent after READY=1
			release()
			wait(t, "the exit", p.Done())
			if e := p.Exit(); e.Kind != supervisor.Normal {
				t.Errorf("exit = %v", e)
			}
		})
	}
}

func TestSystemdNotify(t *testing.T) {
	if _, err := LookPath("systemd-notify", "", []string{"PATH=" + os.Getenv("PATH")}); err != nil {
		t.Skip(err)
	}
	if _, _, err := startChild(t, patient(t), sh("systemd-notify --ready; exec sleep 1000"), Notify{}); err != nil {
		t.Fatal(err)
	}
}

// READY=1 right before the end was in time, also when the end is seen first.
func TestNotifyThenEnd(t *testing.T) {
	n, err := newNotifySocket()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unixgram", n.path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("READY=1")); err != nil {
		t.Fatal(err)
	}
	ended := &Process{pid: os.Getpid(), done: make(chan struct{})} // the sender is this process
	close(ended.done)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errEnded)
	if err := n.wait(ctx, ended); err != nil {
		t.Error(err)
	}
	wait(t, "the end of the listener", n.heard)
}

// A READY=1 of somebody else does not count, and the error says whose it was.
func TestNotifyFromStranger(t *testing.T) {
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	out := newLines()
	result := make(chan error, 1)
	go func() {
		_, err := startReady(ctx, sh(`echo "socket $NOTIFY_SOCKET"; exec sleep 1000`), Output{Line: out.add}, Notify{})
		result <- err
	}()
	socket := out.await(t, "socket ")
	c, err := net.Dial("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("READY=1")) // from this process, which is the parent
	stranger := helperCommand("notify")
	stranger.Env = withEnv(stranger.Env, "NOTIFY_SOCKET", socket)
	p, strangerOut := start(t, stranger)
	strangerOut.await(t, "sent")
	exitOf(t, p)
	barrier(t, socket)
	select {
	case err := <-result:
		t.Fatalf("started: %v", err)
	default:
	}
	cancel()
	if err := <-result; err == nil || !strings.Contains(err.Error(), "none of this agent's") {
		t.Errorf("error = %v", err)
	}
	if _, err := os.Stat(filepath.Dir(socket)); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// barrier returns when the socket has heard everything that was sent before
// (sd_notify_barrier(3)): a descriptor that comes with a message is closed,
// or a sender could fill our table.
func barrier(t *testing.T, socket string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c)
	to := &unix.SockaddrUnix{Name: socket}
	if err := unix.Sendmsg(c, []byte("BARRIER=1"), unix.UnixRights(int(w.Fd())), to, 0); err != nil {
		t.Fatal(err)
	}
	w.Close()
	r.SetReadDeadline(time.Now().Add(patience))
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("the descriptor is still open: %v", err)
	}
}
