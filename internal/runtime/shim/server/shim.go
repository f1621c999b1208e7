package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// shim is the process. It serves slots, and ends when it has left the last one.
type shim struct {
	dir     string // of all slots, and the working directory
	key     string // what its slots have in common
	self    proc.Identity
	program Program // nil if its agents are processes
	reaper  proc.Reaper
	done    chan struct{} // closed when the process has to end

	leaving sync.Mutex // held while a group is removed: the kernel removes one at a time, too

	mu           sync.Mutex
	slots        map[string]*slot // by the name of the directory
	conns        map[*conn]struct{}
	used         bool // it has served a slot
	failed       bool // its program may not go on
	closing      bool
	socket       socket
	releaseTimer *time.Timer
	deadline     *deadline.Watcher // nil if there is none
}

func newShim(dir, key string) (*shim, error) {
	self, err := proc.Identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	p := &shim{
		dir: dir, key: key, self: self, done: make(chan struct{}),
		slots: make(map[string]*slot), conns: make(map[*conn]struct{}),
	}
	p.socket.name = wire.SocketName(self.PID)
	p.socket.accept = p.serve
	return p, nil
}

// take takes over a slot, whose lock a client has passed on.
func (p *shim) take(name string, most int, lock *os.File) error {
	if err := p.check(name, lock); err != nil {
		lock.Close()
		return err
	}
	s := newSlot(p, name, lock)
	err := s.link()
	if err != nil {
		err = fmt.Errorf("socket in %s: %w", s.dir, err)
	} else {
		err = p.add(s, most)
	}
	if err != nil {
		lock.Close()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startLinger()
	return nil
}

func (p *shim) check(name string, lock *os.File) error {
	if strings.HasPrefix(name, ".") || filepath.Base(name) != name {
		return fmt.Errorf("%.80q is not the name of a slot", name)
	}
	if dir := filepath.Join(p.dir, name); !wire.SameFile(lock, filepath.Join(dir, wire.LockFile)) {
		return fmt.Errorf("a file that is not the lock of slot %s", dir)
	}
	return nil
}

// handle answers a request about the shim itself.
func (p *shim) handle(c *conn, m *wire.Message) {
	switch m.Type {
	case wire.Hello:
		p.mu.Lock()
		defer p.mu.Unlock() // a slot that is left after this is told after it
		st := wire.State{Version: wire.Version, Shim: p.self, Restricts: true, Confines: true, Expires: true}
		hello := &wire.Message{Type: wire.Status, ID: m.ID, State: &st, Key: p.key, Slots: len(p.slots),
			Program: p.program != nil}
		if b, err := wire.Encode(hello); err == nil {
			c.send(b)
		}
	case wire.Look:
		c.answer(m, nil, nil)
	case wire.Wake:
		p.restoreFiles()
		c.answer(m, nil, nil)
	case wire.Deadline:
		c.answer(m, nil, p.watchDeadline(string(m.File)))
	case wire.Quit:
		go func() { c.answer(m, nil, p.quit()) }()
	default:
		c.answer(m, nil, fmt.Errorf("unknown request %.40q", m.Type))
	}
}

// slot returns a slot by its name; nil if it is not served.
func (p *shim) slot(name string) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slots[name]
}

// addConn adds a client, unless there are too many.
func (p *shim) addConn(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || len(p.conns) >= maxConns {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *shim) removeConn(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	p.closeIfUnused()
}

// add adds a slot, unless the shim has as many already.
func (p *shim) add(s *slot, most int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closing, p.failed:
		return wire.ErrClosing
	case p.slots[s.name] != nil:
		return fmt.Errorf("%w: slot %s is served here already", runtime.ErrBusy, s.dir)
	case len(p.slots) >= max(1, most):
		return wire.ErrFull
	}
	p.slots[s.name], p.used = s, true
	return nil
}

// left records that a slot is no longer served, and tells the clients.
func (p *shim) left(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.slots, s.name)
	if b, err := wire.Encode(&wire.Message{Type: wire.Left, Name: s.name, Slots: len(p.slots)}); err == nil {
		for c := range p.conns {
			if !c.isShared() {
				c.send(b)
			}
		}
	}
	p.closeIfUnused()
}

// closeIfUnused ends the process after its last slot. It does not wait for the first one without a
// client that could bring it. Needs mu.
func (p *shim) closeIfUnused() {
	if !p.closing && len(p.slots) == 0 && (p.used || len(p.conns) == 0) {
		p.closing = true
		close(p.done)
	}
}

// all returns the slots.
func (p *shim) all() (all []*slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.slots {
		all = append(all, s)
	}
	return all
}

// runsOther reports whether an agent runs in another slot than this.
func (p *shim) runsOther(than *slot) bool {
	return slices.ContainsFunc(p.all(), func(s *slot) bool { return s != than && s.isRunning() })
}

// quit makes the shim leave all slots without a running agent, and returns when it has. It does not
// wait for listeners, which may be slow. It returns runtime.ErrBusy if there are other slots.
func (p *shim) quit() (err error) {
	var idle []*slot
	for _, s := range p.all() {
		if busy := s.quit(); busy != nil {
			err = busy
		} else if s.output.listener.Load() == nil {
			idle = append(idle, s)
		}
	}
	for _, s := range idle {
		<-s.gone
	}
	return err
}

// terminate handles SIGTERM, for example when the machine shuts down.
func (p *shim) terminate() {
	p.mu.Lock()
	p.used = true // also without slots
	p.closeIfUnused()
	p.mu.Unlock()
	for _, s := range p.all() {
		go s.terminate()
	}
}

// fail ends all incarnations of the program with a failure, and the process when they are recorded. They have some time
// to end.
func (p *shim) fail(err error, within time.Duration) {
	p.mu.Lock()
	p.failed = true
	p.mu.Unlock()
	fmt.Fprintf(os.Stderr, "%s %s %v\n", time.Now().Format(time.RFC3339), Signature(p.self.PID), err)
	for _, s := range p.all() {
		s.fail(err, within)
	}
	time.AfterFunc(failTime, func() { os.Exit(1) }) // somebody is slow to read the last lines
}

// failTime is the time after which a process ends whose program has failed, also if not all is
// recorded.
const failTime = 5 * time.Second

// restoreFiles creates removed files of all slots again.
func (p *shim) restoreFiles() {
	if os.MkdirAll(p.dir, 0o700) != nil {
		return
	}
	now, err := os.Stat(".")
	named, nameErr := os.Stat(p.dir)
	if (err != nil || nameErr != nil || !os.SameFile(now, named)) && os.Chdir(p.dir) != nil {
		return
	}
	p.socket.restore()
	for _, s := range p.all() {
		s.restoreFiles()
	}
}

// releaseMemory returns memory to the system some time after an activity. It waits, because a
// crash is usually followed by a start.
//
// A shim that has never collected garbage has nothing to return. The first collection takes a
// megabyte for its own records, more than an idle shim uses.
func (p *shim) releaseMemory() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.releaseTimer == nil {
		p.releaseTimer = time.AfterFunc(releaseDelay, func() {
			var gc debug.GCStats
			if debug.ReadGCStats(&gc); gc.NumGC > 0 {
				debug.FreeOSMemory()
			}
		})
		return
	}
	p.releaseTimer.Reset(releaseDelay)
}

const releaseDelay = time.Second

// socket is a listening socket. Its name is relative to the working directory, because the whole
// path may be too long for a socket address. Its directory belongs to this user alone.
type socket struct {
	name   string
	accept func(*net.UnixConn)

	mu       sync.Mutex
	listener *net.UnixListener
	file     os.FileInfo
	closed   bool
}

// listen creates the socket, instead of an earlier one.
func (s *socket) listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil // no client has to find it
	}
	os.Remove(s.name)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.name, Net: "unix"})
	if err != nil {
		return err
	}
	err = os.Chmod(s.name, 0o600)
	info, statErr := os.Lstat(s.name)
	if err := errors.Join(err, statErr); err != nil {
		l.Close()
		return err
	}
	if old := s.listener; old != nil {
		old.SetUnlinkOnClose(false)
		old.Close()
	}
	s.listener, s.file = l, info
	go s.run(l)
	return nil
}

func (s *socket) run(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			s.mu.Lock()
			replaced := s.listener != l || s.closed
			s.mu.Unlock()
			if replaced {
				return
			}
			<-time.After(100 * time.Millisecond) // out of descriptors: clients wait in the queue
			continue
		}
		go s.accept(c)
	}
}

// restore creates the socket again if its file was removed.
func (s *socket) restore() {
	s.mu.Lock()
	was := s.file
	s.mu.Unlock()
	now, err := os.Lstat(s.name)
	if err == nil && !os.SameFile(now, was) || errors.Is(err, fs.ErrNotExist) {
		s.listen()
	}
}

func (s *socket) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.listener != nil {
		s.listener.Close()
	}
}
