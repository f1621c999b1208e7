package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	maxNotify     = 4 << 10               // bytes; longer messages are not looked at
	lastWordsTime = 20 * time.Millisecond // to read what was sent before the end
)

// notifySocket listens for one incarnation until that ends: a program may go
// on sending (STOPPING=1, WATCHDOG=1) and must not get an error for it.
type notifySocket struct {
	dir   string
	conn  *net.UnixConn
	ready chan struct{} // closed when the process is
	once  sync.Once     // for that
	heard chan struct{} // closed when nothing is read any more

	leader int // set before the first message is read

	mu   sync.Mutex
	last error // why the latest READY=1 was not accepted
}

func (probe Notify) arm(cmd *Command, _ *Output) (gate, error) {
	n, err := listenNotify(probe.Socket)
	if err != nil {
		return gate{}, fmt.Errorf("notify socket: %w", err)
	}
	cmd.Env = withEnv(cmd.Env, "NOTIFY_SOCKET", n.path())
	return gate{wait: n.wait, drop: n.close}, nil
}

// listenNotify listens at a place that was made before, or at a fresh one.
func listenNotify(socket string) (*notifySocket, error) {
	if socket == "" {
		return newNotifySocket()
	}
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if owner, ok := st.Sys().(*syscall.Stat_t); !st.IsDir() || st.Mode().Perm() != 0o700 || !ok || int(owner.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s is not a directory of this user alone", dir)
	}
	os.Remove(socket)
	return listenIn(dir)
}

func newNotifySocket() (*notifySocket, error) {
	// Only this user can reach what is in a fresh directory of mode 0700.
	dir, err := os.MkdirTemp("", "coppice-")
	if err == nil && len(dir) > 90 { // what sockaddr_un takes is about 100
		os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "coppice-")
	}
	if err != nil {
		return nil, err
	}
	return listenIn(dir)
}

func listenIn(dir string) (*notifySocket, error) {
	var err error
	n := &notifySocket{dir: dir, ready: make(chan struct{}), heard: make(chan struct{})}
	n.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path(), Net: "unixgram"})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	if err := passCredentials(n.conn); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *notifySocket) path() string { return filepath.Join(n.dir, "notify") }

func (n *notifySocket) close() {
	n.conn.Close()
	os.RemoveAll(n.dir)
}

func (n *notifySocket) wait(ctx context.Context, p Subject) error {
	n.leader = p.PID()
	go n.listen()
	go func() {
		<-p.Done()
		// What it sent before it ended is in the socket already.
		n.conn.SetReadDeadline(time.Now().Add(lastWordsTime))
	}()
	select {
	case <-n.ready:
		return nil
	case <-ctx.Done():
	}
	if context.Cause(ctx) == errEnded { // was it ready before that?
		<-n.heard
	}
	select {
	case <-n.ready:
		return nil
	default:
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last != nil {
		return n.last
	}
	return errors.New("READY=1 was not sent to NOTIFY_SOCKET")
}

// listen reads messages until the process has ended.
func (n *notifySocket) listen() {
	defer n.close()
	defer close(n.heard)
	msg, control := make([]byte, maxNotify+1), make([]byte, controlSize)
	for {
		size, oobn, _, _, err := n.conn.ReadMsgUnix(msg, control)
		if err != nil {
			return
		}
		pid, known := sender(control[:oobn])
		if size > maxNotify || !isReady(msg[:size]) {
			continue
		}
		if known && !inTree(pid, n.leader) {
			n.mu.Lock()
			n.last = fmt.Errorf("READY=1 came from process %d, which is none of this agent's or has ended", pid)
			n.mu.Unlock()
			continue
		}
		n.once.Do(func() { close(n.ready) })
	}
}

// isReady reports whether a message (assignments, one a line) says READY=1.
func isReady(msg []byte) bool {
	for line := range bytes.SplitSeq(msg, []byte("\n")) {
		if string(line) == "READY=1" {
			return true
		}
	}
	return false
}
