package ready

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestNotify(t *testing.T) {
	for _, what := range []string{"notify", "notify-child", "notify-garbage-first"} {
		t.Run(what, func(t *testing.T) {
			cmd := helperCommand(what)
			stdin, release := exectest.GatedStdin(t)
			cmd.Stdin = stdin
			p, out, err := startChild(t, testContext(t), cmd, Notify{})
			if err != nil {
				t.Fatal(err)
			}
			out.await(t, "sent") // includes what was sent after READY=1
			release()
			wait(t, "the exit", p.Done())
			if e := p.Exit(); e.Kind != supervisor.Normal {
				t.Errorf("exit = %v", e)
			}
		})
	}
}

func TestSystemdNotify(t *testing.T) {
	exectest.Need(t, "systemd-notify")
	if _, _, err := startChild(t, testContext(t), sh("systemd-notify --ready; exec sleep 1000"), Notify{}); err != nil {
		t.Fatal(err)
	}
}

// self is this process as a Subject.
type self struct{}

func (self) PID() int              { return os.Getpid() }
func (self) Done() <-chan struct{} { return nil }
func (self) Exit() supervisor.Exit { return supervisor.Exit{} }

// A READY=1 right before the end counts, even if the end is seen first.
func TestNotifyThenEnd(t *testing.T) {
	n, err := ListenNotify("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	send(t, n.Path(), "READY=1")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errEnded)
	if err := n.wait(ctx, self{}); err != nil {
		t.Error(err)
	}
}

func send(t *testing.T, socket string, msgs ...string) {
	t.Helper()
	c, err := net.Dial("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, m := range msgs {
		if _, err := c.Write([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
}

// listened starts a helper with a notify socket.
func listened(
	t *testing.T, what string, hear func(sdnotify.Notice, sdnotify.Urgency),
) (*proc.Process, lines, *NotifySocket) {
	t.Helper()
	n, err := ListenNotify("", hear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	cmd := helperCommand(what)
	cmd.Env = n.Environ(cmd.Env, 90*time.Second)
	p, out := start(t, cmd)
	n.Listen(p.PID())
	return p, out, n
}

// The last messages of an agent are known at its end, without further waiting.
func TestNotifyLastWords(t *testing.T) {
	for range 20 {
		p, _, n := listened(t, "notify-last", nil)
		exitOf(t, p)
		n.Leave()
		said := n.Said()
		if said.Status != "last words" || said.Stopping.IsZero() || said.Errno != 5 ||
			said.Alive.Before(said.Since) || said.Heard.IsZero() {
			t.Fatalf("heard %+v", said)
		}
	}
}

func TestNotifyEnviron(t *testing.T) {
	n, err := ListenNotify("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	got := n.Environ([]string{"A=b", "NOTIFY_SOCKET=x", "WATCHDOG_USEC=1"}, 30*time.Second)
	if want := []string{"A=b", "NOTIFY_SOCKET=" + n.Path(), "WATCHDOG_USEC=30000000"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := n.Environ(nil, 0); !slices.Equal(got, []string{"NOTIFY_SOCKET=" + n.Path()}) {
		t.Errorf("%q", got)
	}
}

// A sender that never stops has to wait, and delays nothing else.
func TestNotifyFlood(t *testing.T) {
	var heard atomic.Int64
	p, out, n := listened(t, "notify-flood", func(sdnotify.Notice, sdnotify.Urgency) { heard.Add(1) })
	out.await(t, "flooding")
	begin, before := time.Now(), heard.Load()
	for heard.Load() < before+2*maxPerSecond { // the rate is tested
		time.Sleep(10 * time.Millisecond)
		if time.Since(begin) > testTimeout {
			t.Fatalf("%d messages were read", heard.Load())
		}
	}
	if d := time.Since(begin); d < 500*time.Millisecond {
		t.Errorf("%d messages in %v", 2*maxPerSecond, d)
	}
	p.Kill()
	exitOf(t, p)
	begin = time.Now()
	n.Leave()
	if d := time.Since(begin); d > 200*time.Millisecond {
		t.Errorf("the end waited %v for a flood", d)
	}
}

// Messages of other processes and unknown messages change nothing.
func TestNotifyHostile(t *testing.T) {
	p, out, n := listened(t, "notify-hostile", nil)
	out.await(t, "sent")
	send(t, n.Path(), "STATUS=a stranger's", "STOPPING=1", "WATCHDOG=trigger")
	barrier(t, n.Path())
	said := n.Said()
	want := "\uFFFDred " + strings.Repeat("ä", (sdnotify.MaxStatus-len("\uFFFDred …"))/2) + "…"
	if said.Status != want {
		t.Errorf("status %q, want %q", said.Status, want)
	}
	if !said.Stopping.IsZero() || said.Triggered || !said.Alive.IsZero() {
		t.Errorf("heard %+v", said)
	}
	p.Kill()
}

// A later listener uses the same path.
func TestNotifyAgain(t *testing.T) {
	n, err := ListenNotify("", nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Leave()
	again, err := ListenNotify(n.Path(), nil)
	if err != nil {
		t.Fatal(err)
	}
	again.Listen(os.Getpid())
	send(t, n.Path(), "STATUS=here")
	again.Close()
	if s := again.Said(); s.Status != "here" {
		t.Errorf("heard %+v", s)
	}
	if _, err := os.Stat(filepath.Dir(n.Path())); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	if again, err = ListenNotify(n.Path(), nil); err != nil { // the directory was removed meanwhile
		t.Fatal(err)
	}
	again.Close()
	shared := t.TempDir() // not private to this user
	os.Chmod(shared, 0o755)
	if again, err = ListenNotify(filepath.Join(shared, "notify"), nil); err == nil {
		again.Close()
		t.Error("listens where others can")
	}
}

// A READY=1 of another process does not count, and the error names the process.
func TestNotifyFromStranger(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	out := newLines()
	result := make(chan error, 1)
	go func() {
		_, err := startReady(ctx, sh(`echo "socket $NOTIFY_SOCKET"; exec sleep 1000`),
			proc.Output{Line: out.add}, Notify{})
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
	if err := <-result; err == nil || !strings.Contains(err.Error(), "not part of this agent") {
		t.Errorf("error = %v", err)
	}
	if _, err := os.Stat(filepath.Dir(socket)); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// barrier returns when the socket has processed all earlier messages (sd_notify_barrier(3)).
// That needs the descriptors in messages to be closed, which also keeps a sender from filling
// the descriptor table.
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
	r.SetReadDeadline(time.Now().Add(testTimeout))
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("the descriptor is still open: %v", err)
	}
}
