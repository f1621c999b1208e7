// Package foreground runs a fleet or a program in the process of a command: signals end it, and
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

// Stopper ends a fleet: the first time it is asked in order, then brutally.
type Stopper struct {
	cancel context.CancelFunc // asks in order
	mu     sync.Mutex
	fleet  interface{ Stop(keep bool) } // its second Stop kills; nil: it is not there yet
	by     syscall.Signal               // the first one
	cause  string                       // what it came as, for people: a signal, or a key
	since  time.Time                    // of it
	killed bool                         // it was asked again
	reload chan struct{}                // what SIGHUP means instead; nil: it ends the fleet, too
}

// repeatTime is how soon the same wish may come again and still be one: timeout(1)
// and some shells signal both the process and its group.
const repeatTime = 200 * time.Millisecond

// NewStopper also returns the context that ends with the first signal or key.
func NewStopper() (*Stopper, context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	return &Stopper{cancel: cancel}, ctx
}

// Control hands over the fleet.
func (s *Stopper) Control(fleet interface{ Stop(keep bool) }) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fleet = fleet
}

// Signal takes a signal, and reports whether it was the one that kills.
func (s *Stopper) Signal(sig syscall.Signal) (kill bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.by == 0:
		s.begin(sig, unix.SignalName(sig))
	case s.fleet != nil && time.Since(s.since) > repeatTime:
		s.fleet.Stop(false) // which it has been asked for already
		s.fleet.Stop(false)
		s.killed = true
		return true
	}
	return false
}

// Key ends the fleet in order, as an interrupt does, because of a key. It never kills.
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

// Broken ends a fleet whose output has no reader.
func (s *Stopper) Broken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
}

// First returns the first signal; 0 if there was none.
func (s *Stopper) First() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by
}

// Kills reports whether it was asked again, and kills.
func (s *Stopper) Kills() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killed
}

// Cause names the first signal or key, for people.
func (s *Stopper) Cause() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Signalled returns the error with which a command ends after a signal.
func (s *Stopper) Signalled() error {
	return command.Exitf(command.ExitSignalled+int(s.First()), "stopped by %s", s.Cause())
}

// Reloads lets SIGHUP mean what it does to daemons, unless there is a terminal
// whose end it may tell. It is for before listen.
func (s *Stopper) Reloads() <-chan struct{} {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err == nil {
		terminal.Close()
		return nil
	}
	s.reload = make(chan struct{}, 1)
	return s.reload
}

// Listen takes the signals of the process, until release. After the one that
// kills they have their usual effect again, so that a third ends a coppice
// that hangs because its output is not read.
func (s *Stopper) Listen() (release func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup(1) wants it
		signal.Notify(signals, syscall.SIGHUP)
	}
	// A reader that goes away shows in the error of a write. To ignore the
	// signal would make every agent ignore it, too.
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
					default: // it has been asked for already
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
