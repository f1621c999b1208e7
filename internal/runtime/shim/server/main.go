// Package server implements the shim: a small process that owns the slot of an agent, so that
// the agent outlives the daemon and no exit is missed.
//
// It holds the lock of the slot, the agent's terminal or pipes and its output log, writes the
// exit record, and answers on a socket in the slot's directory. It stays while its agent is
// restarted, and ends on its own some time after the last incarnation. It acts on its own only
// as agreed at the start: on the time to readiness, the grace period of a stop, and the timeout.
package server

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Descriptors that a shim is started with, in addition to stdin, stdout and stderr.
const (
	LockFD = 3 // the locked lock file of the slot
	ConnFD = 4 // a connection to the process that started it
)

// The first argument after the name of the program and "shim".
const (
	RunArg  = "run"  // followed by the path of the agent, which ps shows
	ExecArg = "exec" // followed by limits and a command: see exec.go
)

// lingerTime is how long a shim without an agent stays.
const lingerTime = 30 * time.Second

// gcPercent makes the first collection start at a heap of 2 MB (the minimum of 4 MB scales with
// it). An idle shim stays below: see releaseMemory.
const gcPercent = 50

// Main runs a shim. The working directory is that of the slot.
func Main(args []string) int {
	if len(args) > 0 && args[0] == ExecArg {
		return execMain(args[1:])
	}
	if len(args) == 0 || args[0] != RunArg {
		fmt.Fprintln(os.Stderr, "coppice shim: started by coppice itself, not by people")
		return 2
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "%s coppice shim: %v\n", time.Now().Format(time.RFC3339), err)
		return 1
	}
	return 0
}

func run() error {
	debug.SetGCPercent(gcPercent)
	s, first, err := open()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGCHLD, wire.WakeSignal, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	if err := becomeReaper(); err != nil {
		return fmt.Errorf("becoming the reaper of the agent's descendants: %w", err)
	}
	if err := s.listen(); err != nil {
		return err
	}
	s.mu.Lock()
	s.startLinger()
	s.mu.Unlock()
	go s.serve(first)
	for {
		select {
		case sig := <-signals:
			switch sig {
			case syscall.SIGCHLD:
				s.reaper.Collect()
			case wire.WakeSignal, syscall.SIGHUP:
				s.restoreFiles()
			case syscall.SIGTERM:
				go s.terminate()
			}
		case <-s.done:
			s.setDetail(s.records.sync(s.dir))
			s.unused.close()
			s.output.listener.Load().flush()
			s.mu.Lock() // a connection that ends may be checking the socket
			s.listener.Close()
			s.mu.Unlock()
			s.leaveGroup()
			return nil
		}
	}
}

// open takes over the descriptors that the shim was started with.
func open() (*server, *net.UnixConn, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	lock := os.NewFile(LockFD, "lock")
	if lock == nil || !wire.SameFile(lock, filepath.Join(dir, wire.LockFile)) {
		return nil, nil, fmt.Errorf("descriptor %d is not the lock of slot %s", LockFD, dir)
	}
	syscall.CloseOnExec(LockFD)
	syscall.CloseOnExec(ConnFD)
	f := os.NewFile(ConnFD, "connection")
	if f == nil {
		return nil, nil, fmt.Errorf("descriptor %d is not open", ConnFD)
	}
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return nil, nil, fmt.Errorf("descriptor %d: %w", ConnFD, err)
	}
	first, ok := c.(*net.UnixConn)
	if !ok {
		return nil, nil, fmt.Errorf("descriptor %d is not a unix socket", ConnFD)
	}
	s, err := newServer(dir, lock)
	return s, first, err
}

// newServer returns a server of the slot in dir, whose lock this process holds.
func newServer(dir string, lock *os.File) (*server, error) {
	self, err := proc.Identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	s := &server{
		dir: dir, lock: lock, self: self,
		conns: make(map[*conn]struct{}),
		done:  make(chan struct{}),
	}
	s.output.log = logfile.NewWriter(filepath.Join(dir, logfile.Name))
	s.state, err = lastState(dir)
	s.state.Version = wire.Version
	if err != nil {
		s.state.Detail = err.Error()
	}
	return s, nil
}

// lastState returns what the files say about the last incarnation. Its number must be known; the
// rest is for clients. The process that starts a shim has ensured that nothing of that
// incarnation runs.
func lastState(dir string) (wire.State, error) {
	state, err := wire.ReadState(dir)
	if wire.IsMissing(err) {
		return wire.State{}, nil
	}
	if err != nil {
		return wire.State{}, err
	}
	state.LoadEnd(dir)
	return *state, nil
}
