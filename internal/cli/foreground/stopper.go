// Package foreground runs a fleet or program in the process of a command. Signals stop it, and
// lines of text or JSON show it.
package foreground

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/cli/command"
)

// Stopper stops a fleet: in order at the first signal, and by killing at the second.
type Stopper struct {
	cancel context.CancelFunc // starts the orderly stop
	mu     sync.Mutex
	fleet  interface{ Stop(keep bool) } // the second Stop(false) kills; nil before the start
	by     syscall.Signal               // the first signal
	cause  string                       // its name, or that of the key
	since  time.Time                    // when it came
	killed chan struct{}                // closed by the second signal
	reload chan struct{}                // receives SIGHUP; if nil, SIGHUP stops the fleet
}

// repeatTime is the time within which a repeated signal counts as one. timeout(1) and some shells
// signal both the process and its group.
const repeatTime = 200 * time.Millisecond

// NewStopper returns a Stopper, and a context that the first signal or key cancels.
func NewStopper() (*Stopper, context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	return &Stopper{cancel: cancel, killed: make(chan struct{})}, ctx
}

// Control sets the fleet to stop.
func (s *Stopper) Control(fleet interface{ Stop(keep bool) }) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fleet = fleet
	if s.Kills() {
		s.kill()
	}
}

// kill kills the fleet, whether or not it is stopping already. Needs mu.
func (s *Stopper) kill() {
	s.fleet.Stop(false)
	s.fleet.Stop(false)
}

// Signal handles a signal, and reports whether it kills the fleet.
func (s *Stopper) Signal(sig syscall.Signal) (kill bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.by == 0:
		s.begin(sig, unix.SignalName(sig))
		return false
	case time.Since(s.since) <= repeatTime, s.Kills():
		return false
	case s.fleet != nil:
		s.kill()
	}
	close(s.killed)
	return true
}

// Key stops the fleet in order, as an interrupt does. It never kills.
func (s *Stopper) Key(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == 0 {
		s.begin(syscall.SIGINT, name)
	}
}

func (s *Stopper) begin(sig syscall.Signal, cause string) {
	s.by, s.cause, s.since = sig, cause, time.Now()
	s.cancel()
}

// Broken stops the fleet because its output has no reader.
func (s *Stopper) Broken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
}

// First returns the first signal, or 0.
func (s *Stopper) First() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by
}

// Killed returns a channel that the second signal closes.
func (s *Stopper) Killed() <-chan struct{} { return s.killed }

// Kills reports whether a second signal has come.
func (s *Stopper) Kills() bool {
	select {
	case <-s.killed:
		return true
	default:
		return false
	}
}

// Cause names the first signal or key, for people.
func (s *Stopper) Cause() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Signalled returns the error of a command that a signal has stopped.
func (s *Stopper) Signalled() error {
	return command.Exitf(command.ExitSignalled+int(s.First()), "stopped by %s", s.Cause())
}

// Reloads makes SIGHUP reload, as it does in daemons, and returns the channel of requests. With a
// terminal, SIGHUP may mean a hangup, so Reloads does nothing. Call it before Listen.
func (s *Stopper) Reloads() <-chan struct{} {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err == nil {
		terminal.Close()
		return nil
	}
	s.reload = make(chan struct{}, 1)
	return s.reload
}

// Listen handles the signals of the process until release. After the signal that kills, further
// ones have their default effect. So a third one ends a coppice that hangs because its output is
// not read.
func (s *Stopper) Listen() (release func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup(1) ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	// A reader that closes the pipe shows in the write error. Ignoring SIGPIPE instead would make
	// the agents inherit that.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case sig := <-signals:
				if sig == syscall.SIGHUP && s.reload != nil {
					select {
					case s.reload <- struct{}{}:
					default: // a reload is already requested
					}
					continue
				}
				if s.Signal(sig.(syscall.Signal)) {
					signal.Stop(signals)
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		signal.Stop(pipe)
		close(done)
		<-ended
	}
}
