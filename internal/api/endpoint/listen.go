package endpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse is returned if another daemon answers on the socket.
var ErrInUse = errors.New("another daemon answers on this socket")

// Listener is the socket of a daemon. It accepts connections only of its own user and root. When
// its socket is deleted it creates a new one. Admit adds sockets for other users, each for one
// user only.
type Listener struct {
	path   string
	guest  uint32 // the only user it accepts; 0 for the own user and root
	logger *slog.Logger
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
	wg     sync.WaitGroup
	// restored holds a token when the socket was created again.
	restored chan struct{}

	mu    sync.Mutex
	inner *net.UnixListener // the current listener
	info  fs.FileInfo       // of the file of the socket
	// guests are the sockets for other users; nil once it is closed.
	guests map[uint32]*Listener
}

// checkInterval is the interval at which a listener checks that its socket exists.
const checkInterval = 2 * time.Second

// Listen creates the socket, accessible only to its owner from the start, and its directory if
// needed. It replaces the socket of a daemon that has ended, and returns ErrInUse if one answers.
func Listen(path string) (*Listener, error) { return listen(path, slog.Default(), checkInterval) }

func listen(path string, logger *slog.Logger, interval time.Duration) (*Listener, error) {
	l := &Listener{
		path: path, logger: logger, conns: make(chan net.Conn), closed: make(chan struct{}),
		restored: make(chan struct{}, 1), guests: make(map[uint32]*Listener),
	}
	if err := l.start(interval); err != nil {
		return nil, err
	}
	return l, nil
}

// start creates the socket, and watches it until Close.
func (l *Listener) start(interval time.Duration) error {
	if err := l.bind(); err != nil {
		return fmt.Errorf("listening on %s: %w", l.path, err)
	}
	l.wg.Go(func() { l.watch(interval) })
	return nil
}

// bind creates the socket and starts to accept.
func (l *Listener) bind() error {
	dir := filepath.Dir(l.path)
	if len(l.path) > maxPath {
		return fmt.Errorf("the path has %d bytes, at most %d are possible", len(l.path), maxPath)
	}
	if l.guest != 0 {
		if err := makeGuestDir(dir); err != nil {
			return err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if dir == tempDir() {
		if err := checkPrivate(dir); err != nil {
			return err
		}
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := clearStale(l.path); err != nil {
		return err
	}
	inner, err := listenPrivate(l.path)
	if err != nil {
		return err
	}
	inner.SetUnlinkOnClose(false) // the file may belong to another daemon by then
	info, err := os.Lstat(l.path)
	if err == nil && info.Mode().Perm() != 0o600 {
		err = os.Chmod(l.path, 0o600)
	}
	if err == nil && l.guest != 0 {
		err = os.Lchown(l.path, int(l.guest), -1)
	}
	if err != nil {
		inner.Close()
		return err
	}
	if !l.use(inner, info) {
		inner.Close()
		os.Remove(l.path)
		return net.ErrClosed
	}
	return nil
}

// use replaces the current listener, unless l was closed meanwhile.
func (l *Listener) use(inner *net.UnixListener, info fs.FileInfo) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return false
	default:
	}
	if l.inner != nil {
		l.inner.Close()
	}
	l.inner, l.info = inner, info
	l.wg.Go(func() { l.accept(inner) })
	return true
}

// lockDir keeps other processes from creating a socket in the directory at the same time, so a
// new socket is not mistaken for a stale one.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	// Others hold the lock only for a moment.
	deadline := time.Now().Add(2 * time.Second)
	for ; ; time.Sleep(2 * time.Millisecond) { //nolint:forbidigo // the kernel does not say when a lock is free
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", dir, err)
		}
	}
}

// clearStale removes a socket that has no listener.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("there is something else, a %v; remove it", info.Mode())
	}
	conn, err := net.DialTimeout("unix", path, 2*time.Second)
	switch {
	case err == nil:
		conn.Close()
		return ErrInUse
	case errors.Is(err, unix.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.EAGAIN): // its queue is full
		return ErrInUse
	}
	return fmt.Errorf("asking who listens: %w", err)
}

// accept accepts connections until inner is closed.
func (l *Listener) accept(inner *net.UnixListener) {
	var pause time.Duration
	for {
		conn, err := inner.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, most likely
			l.logger.Warn("a connection could not be accepted", "socket", l.path, "error", err)
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(pause):
				continue
			case <-l.closed:
				return
			}
		}
		pause = 0
		if uid, _, err := Peer(conn); err != nil || !l.trusts(uid) {
			l.logger.Warn("a connection was refused", "socket", l.path, "uid", uid, "error", err)
			conn.Close()
			continue
		}
		select {
		case l.conns <- conn:
		case <-l.closed:
			conn.Close()
			return
		}
	}
}

// Trusted reports whether a user may connect to the socket of this one.
func Trusted(uid int) bool { return uid == os.Geteuid() || uid == 0 }

// watch creates the socket again when it was deleted, unless another process listens there.
func (l *Listener) watch(interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last string
	for {
		select {
		case <-l.closed:
			return
		case <-tick.C:
		}
		if l.present() {
			last = ""
			continue
		}
		err := l.bind()
		if err == nil {
			l.logger.Warn("restored the deleted socket", "socket", l.path)
			select {
			case l.restored <- struct{}{}:
			default:
			}
		} else if last != err.Error() {
			l.logger.Error("cannot restore the deleted socket", "socket", l.path, "error", err)
			last = err.Error()
		}
	}
}

// present reports whether the file of the socket is the own one.
func (l *Listener) present() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Lstat(l.path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // its state is unknown
	}
	return os.SameFile(info, l.info)
}

// Restored returns a channel that receives when a deleted socket was created again.
func (l *Listener) Restored() <-chan struct{} { return l.restored }

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Addr returns the path of the socket.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close closes the listener and removes the socket if it is still its own.
func (l *Listener) Close() error {
	l.close.Do(func() {
		close(l.closed)
		l.closeGuests()
		l.mu.Lock()
		l.inner.Close()
		l.mu.Unlock()
		l.wg.Wait()
		if unlock, err := lockDir(filepath.Dir(l.path)); err == nil {
			defer unlock()
			if l.present() {
				os.Remove(l.path)
			}
		}
	})
	return nil
}
