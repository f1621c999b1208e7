package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// server is the shim. Locks are taken in the order records, server, output.
type server struct {
	dir    string
	self   proc.Identity
	reaper proc.Reaper
	done   chan struct{} // closed when the shim has to end

	output  output
	drained <-chan struct{} // of the last process; used by the next start
	records records
	unused  unused
	saving  sync.Mutex // serializes writes of files

	mu           sync.Mutex
	lock         *os.File
	listener     *net.UnixListener
	socket       os.FileInfo // file of the listener
	state        wire.State
	launch       runtime.Launch // the last one
	named        bool           // the state file names this shim; used by start
	run          *incarnation   // running; nil if none
	said         said           // of the last incarnation
	conns        map[*conn]struct{}
	pumping      int  // incarnations whose output has not ended
	closing      bool // nothing more is started
	linger       *time.Timer
	releaseTimer *time.Timer
}

// startLinger is called when no agent runs: the shim waits some time for the next one. Needs mu.
func (s *server) startLinger() {
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

// close ends the shim. Needs mu; no agent may run.
func (s *server) close() {
	if !s.closing {
		s.closing = true
		s.pumped(0)
	}
}

// pumped records that the output of n incarnations has ended. A closing shim waits for that.
// Needs mu.
func (s *server) pumped(n int) {
	s.pumping -= n
	if s.closing && s.pumping == 0 {
		close(s.done)
	}
}

// quit ends the shim, if no agent runs.
func (s *server) quit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return fmt.Errorf("%w: incarnation %d is running", runtime.ErrBusy, s.run.number)
	}
	s.close()
	return nil
}

// terminate handles SIGTERM, for example when the machine shuts down: it stops the agent
// gracefully and records its end.
func (s *server) terminate() {
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

// closeIfAbandoned is called when a connection has ended. A shim whose starter has gone before
// it started anything is useless.
func (s *server) closeIfAbandoned() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil && s.state.Shim != s.self && len(s.conns) == 0 {
		s.close()
	}
}

// broadcastState sends the state to all clients. Needs mu.
func (s *server) broadcastState() {
	s.broadcast(&wire.Message{Type: wire.Status, Incarnation: s.state.Incarnation, State: s.snapshot()})
}

// broadcast sends a message to all clients. Needs mu.
func (s *server) broadcast(m *wire.Message) { s.broadcastExcept(nil, m) }

// broadcastExcept sends a message to all clients except c. Needs mu.
func (s *server) broadcastExcept(c *conn, m *wire.Message) {
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
func (s *server) snapshot() *wire.State {
	st := s.state
	st.Shim, st.Restricts, st.Confines = s.self, true, true
	st.Said = wire.NewNotice(s.said.notice, time.Now())
	st.Activity, st.Told = s.output.log.Activity(), s.output.listener.Load().count()
	return &st
}

// current returns the running incarnation if it has this number.
func (s *server) current(n uint64) (*incarnation, error) {
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

// saveState writes the state file. It is not synced, since its content is useless after the
// machine has stopped. A full disk must not keep an agent from running.
func (s *server) saveState() {
	s.mu.Lock()
	st := s.state
	s.mu.Unlock()
	st.End = nil
	s.save(wire.StateFile, &st)
}

func (s *server) save(name string, v any) {
	file := filepath.Join(s.dir, name)
	write := func() error {
		s.saving.Lock()
		defer s.saving.Unlock()
		return wire.WriteFile(file, v)
	}
	err := write()
	if wire.IsMissing(err) {
		s.restoreFiles()
		err = write()
	}
	s.setDetail(err)
}

// setDetail shows an error of the background in the state.
func (s *server) setDetail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Detail = err.Error()
}

// releaseMemory returns memory to the system some time after an activity. It waits, because a
// crash is usually followed by a start.
//
// A shim that has never collected garbage has nothing to return. The first collection takes a
// megabyte for its own records, more than an idle shim uses.
func (s *server) releaseMemory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.releaseTimer == nil {
		s.releaseTimer = time.AfterFunc(releaseDelay, func() {
			var gc debug.GCStats
			if debug.ReadGCStats(&gc); gc.NumGC > 0 {
				debug.FreeOSMemory()
			}
		})
		return
	}
	s.releaseTimer.Reset(releaseDelay)
}

const releaseDelay = time.Second

// listen creates the socket. Its directory belongs to this user alone.
func (s *server) listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		return nil // no daemon has to find it
	default:
	}
	// The name is relative to the working directory, because the whole path may be too long for
	// a socket address.
	os.Remove(wire.SocketFile)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: wire.SocketFile, Net: "unix"})
	if err != nil {
		return fmt.Errorf("socket in %s: %w", s.dir, err)
	}
	if err := os.Chmod(wire.SocketFile, 0o600); err != nil {
		l.Close()
		return err
	}
	info, err := os.Lstat(wire.SocketFile)
	if err != nil {
		l.Close()
		return err
	}
	if old := s.listener; old != nil {
		old.SetUnlinkOnClose(false)
		old.Close()
	}
	s.listener, s.socket = l, info
	go s.accept(l)
	return nil
}

func (s *server) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			s.mu.Lock()
			replaced := s.listener != l
			s.mu.Unlock()
			if replaced {
				return
			}
			select {
			case <-s.done:
				return
			case <-time.After(100 * time.Millisecond): // out of descriptors: clients wait in the queue
			}
			continue
		}
		go s.serve(c)
	}
}

// restoreFiles creates removed files again: the socket or the whole directory. It does nothing
// if another shim has taken the slot meanwhile.
func (s *server) restoreFiles() {
	s.mu.Lock()
	lock, socket := s.lock, s.socket
	s.mu.Unlock()
	fresh := false
	if !wire.SameFile(lock, filepath.Join(s.dir, wire.LockFile)) {
		if os.MkdirAll(s.dir, 0o700) != nil || os.Chdir(s.dir) != nil {
			return
		}
		f, err := wire.TryLock(s.dir)
		if err != nil || f == nil {
			return
		}
		s.mu.Lock()
		s.lock = f
		s.mu.Unlock()
		lock.Close()
		fresh = true
	}
	if now, err := os.Lstat(filepath.Join(s.dir, wire.SocketFile)); err != nil || !os.SameFile(now, socket) {
		s.listen()
	}
	if fresh {
		s.saveState()
	}
}
