package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// Errors of scripted starts: {error, failed}, and an exception.
var (
	errFailed = errors.New("failed")
	errThrown = errors.New("thrown")
	errOver   = errors.New("the script is over")
)

// noStart is the Start of a specification that is only validated.
func noStart(context.Context) (supervisor.Process, error) { return nil, errOver }

// child is one incarnation: a process that does nothing until it is asked to end. It is guarded
// by the lock of its session.
type child struct {
	sup      *sup
	name, id string // in the script, and in the library
	pid      int    // counts all incarnations of a script
	spec     childSpec
	shutdown time.Duration

	asked    bool // to stop, but has not ended
	slow     bool // asked, and something else must happen before it ends
	timed    bool // and that is only a matter of time
	dead     bool
	done     chan struct{}
	released bool // done is closed: the supervisor may know
	reason   term
}

// exitError carries an Erlang exit reason through the library.
type exitError struct{ reason term }

func (e exitError) Error() string { return e.reason.String() }

// starter returns the start function of a child specification.
func (s *sup) starter(spec childSpec, shutdown time.Duration) func(context.Context) (supervisor.Process, error) {
	return func(ctx context.Context) (supervisor.Process, error) {
		self, _ := supervisor.SelfOf(ctx)
		name, instance := self.Arg.(string)
		if spec.named == instance {
			return nil, errThrown // Erlang finds no function with so many arguments
		}
		if spec.named {
			name = spec.id
		}
		w := s.session
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.over {
			return nil, errOver
		}
		n := w.attempts[name]
		w.attempts[name]++
		err := errFailed
		switch spec.starts[min(n, len(spec.starts)-1)] {
		case "ok":
			w.pids++
			c := &child{sup: s, name: name, id: self.ID, pid: w.pids, spec: spec, shutdown: shutdown,
				done: make(chan struct{})}
			s.children[c.id], w.last[name] = c, c
			w.emit(event{text: fmt.Sprintf("+ %s %d", name, n+1)})
			return c, nil
		case "ignore":
			w.emit(event{text: fmt.Sprintf("~ %s %d", name, n+1)})
			return nil, supervisor.ErrIgnore
		case "throw":
			err = errThrown
		}
		w.emit(event{text: fmt.Sprintf("! %s %d", name, n+1)})
		s.awaitMailbox(ctx, self.ID)
		return nil, err
	}
}

// Wait, Stop and Kill implement supervisor.Process.
func (c *child) Wait() supervisor.Exit {
	<-c.done
	c.sup.session.mu.Lock()
	defer c.sup.session.mu.Unlock()
	why := exitError{c.reason}
	switch t := c.reason.(type) {
	case atom:
		switch t {
		case "normal":
			return supervisor.Exit{Kind: supervisor.Normal}
		case "shutdown":
			return supervisor.Exit{Kind: supervisor.ShutDown}
		case "killed":
			return supervisor.Exit{Kind: supervisor.Killed, Err: why}
		}
	case tuple:
		if len(t) == 2 && isAtom(t[0], "shutdown") {
			return supervisor.Exit{Kind: supervisor.ShutDown, Err: why}
		}
	}
	return supervisor.Exit{Kind: supervisor.Failure, Err: why}
}

func (c *child) Stop() {
	c.sup.session.mu.Lock()
	defer c.sup.session.mu.Unlock()
	c.stop()
}

func (c *child) Kill() {
	c.sup.session.mu.Lock()
	defer c.sup.session.mu.Unlock()
	if !c.asked && c.shutdown != supervisor.BrutalKill {
		c.stop() // on a slow machine the stop may not have arrived yet
	}
	c.asked = true
	c.die(atom("killed"), "killed")
	c.release()
}

// noTime stands for a shutdown time of 0 ms, which is the default for the library.
const noTime = time.Nanosecond

// stop makes the child end as its script says.
func (c *child) stop() {
	w := c.sup.session
	defer w.signal()
	c.asked = true
	if c.dead {
		c.release()
		return
	}
	c.slow, c.timed = true, c.shutdown != supervisor.Infinity
	if c.shutdown == noTime && !(c.sup.simple && !c.sup.calling) {
		return // Erlang kills it before it could answer, but where all end at once
	}
	switch c.spec.stop {
	case "obey":
		c.die(atom("shutdown"), "asked")
	case "normal":
		c.die(atom("normal"), "asked")
	case "other":
		c.die(atom("other"), "asked")
	case "hang":
	default:
		d, _ := lingers(c.spec.stop)
		c.timed = true
		time.AfterFunc(d, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			c.die(atom("shutdown"), "lingered")
		})
	}
}

// exit implements the exit command of scripts.
func (c *child) exit(reason term) {
	lingering := c.slow && c.spec.stop != "hang"
	switch {
	case isAtom(reason, "kill"):
		c.die(atom("killed"), "")
	case !lingering: // or it no longer reads its messages
		c.die(reason, "")
	}
}

// die ends the child. Its supervisor learns of it immediately if it waits for the child, and
// otherwise through its mailbox. cause groups simultaneous exits, which have no defined order.
func (c *child) die(reason term, cause string) {
	w := c.sup.session
	if c.dead || w.over {
		c.dead = true
		return
	}
	c.dead, c.reason = true, reason
	e := event{text: fmt.Sprintf("- %s %v", c.name, reason), pid: c.pid}
	if c.sup.simple && cause != "" {
		e.batch = cause
	}
	w.emit(e)
	if c.asked {
		c.release()
	} else {
		c.sup.inbox = append(c.sup.inbox, message{deliver: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			c.release()
		}})
	}
}

// release reports the end of the child to the supervisor.
func (c *child) release() {
	if !c.released {
		c.released = true
		close(c.done)
		c.sup.session.signal()
	}
}
