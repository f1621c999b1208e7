package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// slot is the place of one agent. Locks are taken in the order records, slot, output.
type slot struct {
	shim *shim
	name string // of its directory
	dir  string
	mark proc.Mark     // of all that runs in it
	gone chan struct{} // closed when the slot was left

	output  output
	drained <-chan struct{} // of the last process; used by the next start
	records records
	unused  unused

	restoring sync.Mutex // while files are created again
	left      bool       // guarded by restoring

	mu      sync.Mutex
	lock    *os.File
	state   wire.State
	launch  runtime.Launch // the last one
	run     *incarnation   // running; nil if none
	said    said           // of the last incarnation
	conns   map[*conn]struct{}
	pumping int  // incarnations whose output has not ended
	closing bool // nothing more is started
	leaving bool // nothing more is listened to
	linger  *time.Timer
}

// newSlot returns the slot in a directory, whose lock this process holds.
func newSlot(p *shim, name string, lock *os.File) *slot {
	dir := filepath.Join(p.dir, name)
	s := &slot{
		shim: p, name: name, dir: dir, mark: wire.Mark(name), lock: lock,
		conns: make(map[*conn]struct{}), gone: make(chan struct{}),
	}
	s.output.log = logfile.NewWriter(filepath.Join(dir, logfile.Name))
	var err error
	s.state, err = lastState(dir)
	s.state.Version = wire.Version
	if err != nil {
		s.state.Detail = err.Error()
	}
	return s
}

// startLinger is called when no agent runs: the shim keeps the slot for some time, for the next
// one. Needs mu.
func (s *slot) startLinger() {
	if s.linger != nil {
		s.linger.Stop()
	}
	s.linger = time.AfterFunc(lingerTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.run != nil:
		case s.pumping > 0: // a listener is slow
			s.startLinger()
		default:
			s.close()
		}
	})
}

// close makes the shim leave the slot. Needs mu; no agent may run.
func (s *slot) close() {
	if !s.closing {
		s.closing = true
		s.pumped(0)
	}
}

// pumped records that the output of n incarnations has ended. A closing slot waits for that.
// Needs mu.
func (s *slot) pumped(n int) {
	s.pumping -= n
	if s.closing && s.pumping == 0 {
		go s.leave()
	}
}

// quit makes the shim leave the slot, if no agent runs.
func (s *slot) quit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return fmt.Errorf("%w: incarnation %d is running", runtime.ErrBusy, s.run.number)
	}
	s.close()
	return nil
}

// fail ends the agent, a function, with an error and within a time. Nothing more is started.
func (s *slot) fail(err error, within time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
	if s.run == nil {
		return
	}
	run := s.run
	go func() {
		<-run.started
		if f, ok := run.process.(*Function); ok {
			f.fail(err, within)
		}
	}()
}

// terminate stops the agent gracefully, records its end, and makes the shim leave the slot.
func (s *slot) terminate() {
	for {
		s.mu.Lock()
		run := s.run
		if run == nil {
			s.close()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		run.stop(0)
		<-run.ended
	}
}

// closeIfAbandoned is called when a connection has ended. A slot whose client has gone before it
// started anything is left.
func (s *slot) closeIfAbandoned() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil && s.state.Shim != s.shim.self && len(s.conns) == 0 {
		s.close()
	}
}

// broadcastState sends the state to all clients. Needs mu.
func (s *slot) broadcastState() {
	s.broadcast(&wire.Message{Type: wire.Status, Incarnation: s.state.Incarnation, State: s.snapshot()})
}

// broadcast sends a message to all clients. Needs mu.
func (s *slot) broadcast(m *wire.Message) { s.broadcastExcept(nil, m) }

// broadcastExcept sends a message to all clients except c. Needs mu.
func (s *slot) broadcastExcept(c *conn, m *wire.Message) {
	m.Name = s.name
	b, err := wire.Encode(m)
	if err != nil {
		return
	}
	for other := range s.conns {
		if other != c {
			other.send(b)
		}
	}
}

// snapshot returns the current state. Needs mu.
func (s *slot) snapshot() *wire.State {
	st := s.state
	st.Shim, st.Restricts, st.Confines, st.Expires = s.shim.self, true, true, true
	st.Said = wire.NewNotice(s.said.notice, time.Now())
	st.Activity, st.Told = s.output.log.Activity(), s.output.listener.Load().count()
	return &st
}

// current returns the running incarnation if it has this number.
func (s *slot) current(n uint64) (*incarnation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.run != nil && s.run.number == n:
		return s.run, nil
	case s.state.Incarnation == n:
		return nil, runtime.ErrEnded
	}
	return nil, fmt.Errorf("%w: incarnation %d was requested, the last one of the slot is %d", runtime.ErrStale, n,
		s.state.Incarnation)
}

// saveState writes the state to the lock file. A full disk must not keep an agent from running.
func (s *slot) saveState() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeState()
}

// writeState is saveState. Needs mu.
func (s *slot) writeState() {
	if err := wire.WriteState(s.lock, &s.state); err != nil {
		s.state.Detail = err.Error()
	}
}

// saveRecord writes the exit record.
func (s *slot) saveRecord(r *wire.Record) {
	file := filepath.Join(s.dir, wire.ExitFile)
	err := wire.WriteFile(file, r)
	if wire.IsMissing(err) {
		s.createFiles()
		err = wire.WriteFile(file, r)
	}
	s.setDetail(err)
}

// setDetail shows an error of the background in the state.
func (s *slot) setDetail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Detail = err.Error()
}

// restoreFiles creates removed files again: the socket or the whole directory. It does nothing if
// another shim has taken the slot meanwhile.
func (s *slot) restoreFiles() {
	if s.createFiles() {
		s.records.restore(s)
	}
}

// createFiles is restoreFiles without the exit record, and reports whether that may be missing.
func (s *slot) createFiles() (fresh bool) {
	s.restoring.Lock()
	defer s.restoring.Unlock()
	if s.left {
		return false
	}
	s.mu.Lock()
	lock := s.lock
	s.mu.Unlock()
	if !wire.SameFile(lock, filepath.Join(s.dir, wire.LockFile)) {
		if os.MkdirAll(s.dir, 0o700) != nil {
			return false
		}
		f, err := wire.TryLock(s.dir)
		if err != nil || f == nil {
			return false
		}
		s.mu.Lock()
		s.lock = f
		s.writeState()
		s.mu.Unlock()
		lock.Close()
		fresh = true
	}
	if _, err := os.Lstat(filepath.Join(s.dir, wire.SocketFile)); wire.IsMissing(err) {
		s.link()
	}
	return fresh
}

// link makes the socket of the shim that of the slot, instead of that of the last one.
func (s *slot) link() error {
	name := filepath.Join(s.dir, wire.SocketFile)
	target := filepath.Join("..", s.shim.socket.name)
	err := os.Symlink(target, name)
	if errors.Is(err, fs.ErrExist) {
		os.Remove(name)
		err = os.Symlink(target, name)
	}
	return err
}

// leave ends the service of the slot.
func (s *slot) leave() {
	s.setDetail(s.records.sync(s.dir))
	s.unused.close()
	s.mu.Lock()
	s.leaving = true
	s.mu.Unlock()
	if l := s.output.listener.Load(); l != nil {
		l.flush()
		l.c.end()
	}
	s.leaveGroup()
	s.restoring.Lock()
	s.left = true
	os.Remove(filepath.Join(s.dir, wire.SocketFile))
	s.mu.Lock()
	if s.state.Shim == s.shim.self {
		s.state.Shim = proc.Identity{}
		s.writeState() // if that fails, its lock alone shows that it is free
	}
	for c := range s.conns {
		if c.isShared() {
			c.end()
		}
	}
	lock := s.lock
	s.mu.Unlock()
	s.restoring.Unlock()
	close(s.gone)
	s.shim.left(s)
	lock.Close() // after that a client may give the slot back
}

// marker returns a variable of all that runs in the slot.
func (s *slot) marker() string { return wire.MarkerEnv + "=" + wire.Marker(s.dir) }

// isRunning reports whether an agent runs in the slot, or is about to.
func (s *slot) isRunning() bool { return s.running() != nil }

// running returns the incarnation that runs in the slot, or is about to; nil if there is none.
func (s *slot) running() *incarnation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}
