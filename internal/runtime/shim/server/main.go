// Package server implements the shim: a process that owns the slots of some agents, so that the
// agents outlive the daemon and no exit is missed.
//
// For each slot it holds the lock, the agent's terminal or pipes and its output log, writes the
// exit record, and answers on a socket in the slot's directory. It keeps a slot while its agent is
// restarted, and leaves it some time after the last incarnation. It acts on its own only as agreed
// at the start: on the time to readiness, the grace period of a stop, and the timeout. At the deadline
// of the node, if there is one, it ends all of its agents: see package deadline.
package server

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Descriptors that a shim is started with, in addition to stdin, stdout and stderr.
const (
	ConnFD   = 3 // a connection to the process that has started it
	BundleFD = 4 // spec.Program.Bundle, of a program
	TraceFD  = 5 // spec.Program.Trace, if there is one
)

// Arguments after the name of the program and "shim".
const (
	RunArg     = "run"     // followed by what the slots have in common, which ps shows
	ProgramArg = "program" // after that: the agents are those of a program
	TraceArg   = "trace"   // after that: there is a trace
	ExecArg    = "exec"    // followed by limits and a command: see exec.go
)

// lingerTime is the time for which a shim keeps a slot without an agent.
const lingerTime = 30 * time.Second

// gcPercent makes the first collection start at a heap of about 2 MB (the minimum of 4 MB scales
// with it). A shim stays below while it starts 100 agents: see releaseMemory.
const gcPercent = 75

// OpenProgram opens the program of a bundle. trace may be nil.
type OpenProgram func(bundle io.Reader, trace *os.File) (Program, error)

// Main runs a shim whose agents are processes. The working directory is that of all slots.
func Main(args []string) int { return MainWith(nil, args) }

// MainWith runs a shim, whose agents may also be those of a program.
func MainWith(open OpenProgram, args []string) int {
	if len(args) > 0 && args[0] == ExecArg {
		return execMain(args[1:])
	}
	if len(args) < 2 || args[0] != RunArg {
		fmt.Fprintln(os.Stderr, "coppice shim: started by coppice itself, not by people")
		return 2
	}
	if err := run(args[1], args[2:], open); err != nil {
		fmt.Fprintf(os.Stderr, "%s %s %v\n", time.Now().Format(time.RFC3339), Signature(os.Getpid()), err)
		return 1
	}
	return 0
}

// Signature is in front of what a shim says in the log of all shims.
func Signature(pid int) string { return fmt.Sprintf("coppice shim %d:", pid) }

func run(key string, kind []string, open OpenProgram) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	p, err := newShim(dir, key)
	if err != nil {
		return err
	}
	if slices.Contains(kind, ProgramArg) {
		err = p.openProgram(open, slices.Contains(kind, TraceArg))
	} else {
		debug.SetGCPercent(gcPercent)
	}
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGCHLD, wire.WakeSignal, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	if err := becomeReaper(); err != nil {
		return fmt.Errorf("becoming the reaper of the agents' descendants: %w", err)
	}
	if err := p.socket.listen(); err != nil {
		return fmt.Errorf("socket in %s: %w", dir, err)
	}
	defer p.socket.close()
	syscall.CloseOnExec(ConnFD)
	f := os.NewFile(ConnFD, "connection")
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return fmt.Errorf("descriptor %d: %w", ConnFD, err)
	}
	first, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("descriptor %d is not a unix socket", ConnFD)
	}
	go p.serve(first)
	for {
		select {
		case sig := <-signals:
			switch sig {
			case syscall.SIGCHLD:
				p.reaper.Collect()
			case wire.WakeSignal, syscall.SIGHUP:
				p.restoreFiles()
			case syscall.SIGTERM:
				p.terminate()
			}
		case <-p.done:
			return nil
		}
	}
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
