package ready

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
)

// NotifySocket receives what one incarnation reports about itself with sd_notify(3). It stays
// open until the incarnation ends, since a program may send at any time and must not get an
// error.
type NotifySocket struct {
	dir        string
	conn       *net.UnixConn
	onNotice   func(sdnotify.Notice, sdnotify.Urgency)
	ready      chan struct{} // closed when the process is ready
	readyOnce  sync.Once     // closes ready
	leader     int
	listenOnce sync.Once       // starts or skips listen
	ctx        context.Context // done when no more messages are awaited
	cancel     context.CancelFunc
	ended      chan struct{} // closed when listen has returned

	mu       sync.Mutex
	notice   sdnotify.Notice
	rejected error // why the latest READY=1 was rejected
}

// ListenNotify creates a socket at a path that a process has in its environment already, or at a
// new path if socket is empty. onNotice, which may be nil, is called from one goroutine with the
// resulting state and how soon it matters. The caller must call Listen or Close.
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

// notifyDir creates the directory of a socket, which only this user can enter.
func notifyDir(socket string) (string, error) {
	if socket == "" {
		dir, err := os.MkdirTemp("", "coppice-")
		if err == nil && len(dir) > 90 { // sockaddr_un holds about 100 bytes
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

// ForgetNotify removes a socket without a listener, and its directory.
func ForgetNotify(socket string) {
	if filepath.Base(socket) == notifyName {
		os.Remove(socket)
		os.Remove(filepath.Dir(socket))
	}
}

const notifyName = "notify"

// Path returns the path of the socket: NOTIFY_SOCKET of the process.
func (n *NotifySocket) Path() string { return filepath.Join(n.dir, notifyName) }

// Admit lets another user send messages.
func (n *NotifySocket) Admit(uid uint32) error {
	err := errors.Join(os.Chown(n.Path(), int(uid), -1), os.Chmod(n.Path(), 0o600), os.Chmod(n.dir, 0o711))
	if err != nil {
		return fmt.Errorf("notify socket: %w", err)
	}
	return nil
}

// Environ adds NOTIFY_SOCKET to an environment and, if watchdog is positive, WATCHDOG_USEC. It
// does not set WATCHDOG_PID, since the pid is not known before the process exists. Without that,
// programs take the other variables for theirs.
func (n *NotifySocket) Environ(env []string, watchdog time.Duration) []string {
	env = withEnv(env, "NOTIFY_SOCKET", n.Path())
	if watchdog > 0 {
		env = withEnv(env, "WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	}
	return env
}

// withEnv returns a copy of env with one variable set.
func withEnv(env []string, key, value string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, key+"=") {
			out = append(out, kv)
		}
	}
	return append(out, key+"="+value)
}

// Recall restores what was reported to an earlier listener. Call it before Listen.
func (n *NotifySocket) Recall(before sdnotify.Notice) { n.notice.Recall(before) }

// Listen starts to receive messages. Those of the process and its descendants count.
func (n *NotifySocket) Listen(leader int) {
	n.listenOnce.Do(func() {
		n.leader = leader
		go n.listen()
	})
}

// Ready records a READY=1 of the process that came another way.
func (n *NotifySocket) Ready() { n.readyOnce.Do(func() { close(n.ready) }) }

// Said returns what was reported so far.
func (n *NotifySocket) Said() sdnotify.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.notice
}

// Close receives what was sent before the call, without waiting for more, and removes the
// socket.
func (n *NotifySocket) Close() {
	n.Leave()
	ForgetNotify(n.Path())
}

// Leave is like Close but keeps the socket file for the next listener, because the process goes
// on.
func (n *NotifySocket) Leave() {
	n.cancel()
	n.conn.SetReadDeadline(time.Unix(1, 0))
	n.listenOnce.Do(func() { close(n.ended) })
	<-n.ended
	n.conn.Close()
}

const (
	// maxPerSecond bounds the messages that are received in a second. A process that sends more
	// has to wait, and delays nothing else.
	maxPerSecond = 200
	// maxPending bounds the messages that are received at the end. The kernel queues far fewer.
	maxPending = 10_000
)

// listen receives messages until Leave is called, and then those that are queued.
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
			case <-n.ctx.Done(): // the read deadline has expired, too
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

// handle processes one message.
func (n *NotifySocket) handle(b, control []byte) {
	pid, known := sender(control)
	m := sdnotify.Parse(b)
	if known && !proc.InTree(pid, n.leader) {
		if m.Ready {
			n.mu.Lock()
			n.rejected = fmt.Errorf("READY=1 came from process %d, which is not part of this agent or has ended", pid)
			n.mu.Unlock()
		}
		return
	}
	n.mu.Lock()
	urgency := n.notice.Apply(m, time.Now(), plaintext.Line)
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
	if errors.Is(context.Cause(ctx), errEnded) { // it may have been ready before that
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

func (probe Notify) arm(*proc.Command, *proc.Output) (waitFunc, error) {
	if probe.On == nil {
		return nil, errors.New("notify probe without a socket")
	}
	return probe.On.wait, nil
}
