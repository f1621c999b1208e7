package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
)

// NotifySocket listens to what one incarnation says of itself, until its end: a
// program may go on sending and must not get an error for it.
type NotifySocket struct {
	dir        string
	conn       *net.UnixConn
	onNotice   func(sdnotify.Notice, sdnotify.Urgency)
	ready      chan struct{} // closed when the process is
	readyOnce  sync.Once     // for that
	leader     int
	listenOnce sync.Once       // begins to
	ctx        context.Context // done when no more is waited for
	cancel     context.CancelFunc
	ended      chan struct{} // closed when reading has ended

	mu       sync.Mutex
	notice   sdnotify.Notice
	rejected error // why the latest READY=1 was not accepted
}

// ListenNotify listens at a place that was made before, for a process that was
// told so, or at a fresh one if socket is empty. hear is told, from one
// goroutine, what was said by the time and how soon it matters; nothing is if it
// is nil. Listen or Close has to be called.
func ListenNotify(socket string, onNotice func(sdnotify.Notice, sdnotify.Urgency)) (*NotifySocket, error) {
	dir, err := notifyDir(socket)
	if err != nil {
		return nil, fmt.Errorf("notify socket: %w", err)
	}
	n := &NotifySocket{dir: dir, onNotice: onNotice, ready: make(chan struct{}), ended: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.notice.Since = time.Now()
	if n.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.Path(), Net: "unixgram"}); err == nil {
		if err = passCredentials(n.conn); err != nil {
			n.conn.Close()
		}
	}
	if err != nil {
		ForgetNotify(n.Path())
		return nil, fmt.Errorf("notify socket: %w", err)
	}
	return n, nil
}

// notifyDir makes the directory of a socket, which only this user can reach.
func notifyDir(socket string) (string, error) {
	if socket == "" {
		dir, err := os.MkdirTemp("", "coppice-")
		if err == nil && len(dir) > 90 { // what sockaddr_un takes is about 100
			os.Remove(dir)
			dir, err = os.MkdirTemp("/tmp", "coppice-")
		}
		return dir, err
	}
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if owner, ok := st.Sys().(*syscall.Stat_t); !st.IsDir() || st.Mode().Perm() != 0o700 || !ok ||
		int(owner.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not a directory of this user alone", dir)
	}
	os.Remove(socket)
	return dir, nil
}

// ForgetNotify removes a socket that has no listener, with its directory.
func ForgetNotify(socket string) {
	if filepath.Base(socket) == notifyName {
		os.Remove(socket)
		os.Remove(filepath.Dir(socket))
	}
}

const notifyName = "notify"

// Path is where the socket is: the NOTIFY_SOCKET of the process.
func (n *NotifySocket) Path() string { return filepath.Join(n.dir, notifyName) }

// Admit lets another user than that of this program speak.
func (n *NotifySocket) Admit(uid uint32) error {
	err := errors.Join(os.Chown(n.Path(), int(uid), -1), os.Chmod(n.Path(), 0o600), os.Chmod(n.dir, 0o711))
	if err != nil {
		return fmt.Errorf("notify socket: %w", err)
	}
	return nil
}

// Environ adds to an environment what a program asks for before it says
// something: where to, and, if watchdog is positive, how often WATCHDOG=1 has to
// come. There is no WATCHDOG_PID: it is not known before the process exists, and
// programs take the rest for theirs without it.
func (n *NotifySocket) Environ(env []string, watchdog time.Duration) []string {
	env = withEnv(env, "NOTIFY_SOCKET", n.Path())
	if watchdog > 0 {
		env = withEnv(env, "WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	}
	return env
}

// Recall tells what was said before this one listened. It comes before Listen.
func (n *NotifySocket) Recall(before sdnotify.Notice) { n.notice.Recall(before) }

// Listen begins to read, now that it is known whose messages count: those of the
// process and its descendants.
func (n *NotifySocket) Listen(leader int) {
	n.listenOnce.Do(func() {
		n.leader = leader
		go n.listen()
	})
}

// Ready is READY=1 from the process, which has come by another way.
func (n *NotifySocket) Ready() { n.readyOnce.Do(func() { close(n.ready) }) }

// Said is what was said so far.
func (n *NotifySocket) Said() sdnotify.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.notice
}

// Close reads what was sent before it was called, without waiting for more, and
// removes the socket.
func (n *NotifySocket) Close() {
	n.Leave()
	ForgetNotify(n.Path())
}

// Leave is Close for a process that goes on: the place stays, for the listener that
// listens there next.
func (n *NotifySocket) Leave() {
	n.cancel()
	n.conn.SetReadDeadline(time.Unix(1, 0))
	n.listenOnce.Do(func() { close(n.ended) })
	<-n.ended
	n.conn.Close()
}

const (
	// maxPerSecond is how many messages are read in a second at most. Who sends more
	// has to wait, and nothing else has to wait for that.
	maxPerSecond = 200
	// maxPending bounds what is read at the end. The kernel lets much less wait.
	maxPending = 10_000
)

// listen reads messages until Leave is called, and then what is there already.
func (n *NotifySocket) listen() {
	defer close(n.ended)
	msg, control := make([]byte, sdnotify.MaxMessage+2), make([]byte, controlSize)
	begin, count := time.Now(), 0
	for {
		size, oobn, _, _, err := n.conn.ReadMsgUnix(msg, control)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return
		}
		n.handle(msg[:size], control[:oobn])
		if count++; count == maxPerSecond {
			select {
			case <-time.After(time.Second - time.Since(begin)):
			case <-n.ctx.Done(): // the deadline says it, too
			}
			begin, count = time.Now(), 0
		}
	}
	for range maxPending {
		size, oobn, err := receiveNow(n.conn, msg, control)
		if err != nil {
			return
		}
		n.handle(msg[:size], control[:oobn])
	}
}

// take deals with one message.
func (n *NotifySocket) handle(b, control []byte) {
	pid, known := sender(control)
	m := sdnotify.Parse(b)
	if known && !inTree(pid, n.leader) {
		if m.Ready {
			n.mu.Lock()
			n.rejected = fmt.Errorf("READY=1 came from process %d, which is not part of this agent or has ended", pid)
			n.mu.Unlock()
		}
		return
	}
	n.mu.Lock()
	urgency := n.notice.Hear(m, time.Now(), Plain)
	notice := n.notice
	n.mu.Unlock()
	if n.onNotice != nil {
		n.onNotice(notice, urgency)
	}
	if m.Ready {
		n.Ready()
	}
}

// wait is the waitFunc of a Notify probe.
func (n *NotifySocket) wait(ctx context.Context, p Subject) error {
	n.Listen(p.PID())
	select {
	case <-n.ready:
		return nil
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), errEnded) { // was it ready before that?
		n.Leave()
	}
	select {
	case <-n.ready:
		return nil
	default:
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rejected != nil {
		return n.rejected
	}
	return errors.New("READY=1 was not sent to NOTIFY_SOCKET")
}

func (probe Notify) arm(*Command, *Output) (waitFunc, error) {
	if probe.On == nil {
		return nil, errors.New("notify probe without a socket")
	}
	return probe.On.wait, nil
}
