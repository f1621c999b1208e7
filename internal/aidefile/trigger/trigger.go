// Package firing begins the runs of agents that wait for triggers. It decides
// nothing: package aide says whether a firing is a run, and the supervisor of
// the agent starts it, and restarts it.
package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/supervisor"
)

// Place is where an agent is in the tree.
type Place struct {
	Supervisor *supervisor.Supervisor
	ID         string
	// Spec is what it is started with where its supervisor has forgotten it,
	// as it does with temporary children that have ended.
	Spec supervisor.ChildSpec
	Gate *Gate
}

// ErrSkipped is wrapped by the error of a firing that is no run, with the reason.
var ErrSkipped = errors.New("skipped")

// State is the state of the agent.
func (p Place) State() (supervisor.State, error) {
	info, err := p.Supervisor.Child(p.ID)
	if errors.Is(err, supervisor.ErrNotFound) {
		return supervisor.Stopped, nil
	}
	return info.State, err
}

// Fire begins a run, if one is to begin, and waits until it has. before is
// called when that is decided, and may be nil; its error stops it. The error
// wraps ErrSkipped if there is none.
func (p Place) Fire(ctx context.Context, before func(aidefile.Decision) error) error {
	s, err := p.State()
	if err != nil {
		return skipped(err)
	}
	d := aidefile.Decide(aidefile.StateOf(s, false, nil))
	if !d.Run {
		return fmt.Errorf("%w: %s", ErrSkipped, d.Reason)
	}
	if before != nil {
		if err := before(d); err != nil {
			return err
		}
	}
	return skipped(p.Begin(ctx))
}

// Begin starts a run of an agent that is down, whoever has decided so.
func (p Place) Begin(ctx context.Context) error {
	p.Gate.open()
	_, err := p.Supervisor.RestartChild(ctx, p.ID)
	if errors.Is(err, supervisor.ErrNotFound) {
		_, err = p.Supervisor.StartChild(ctx, p.Spec)
	}
	if err != nil && ctx.Err() == nil {
		p.Gate.shut() // nothing came of it, and nothing else may
	}
	return err
}

// Again ends the run that goes on, if any, or the wait before the next, and begins
// one, which counts as a restart for the agent's limit: see supervisor.RestartCounted.
func (p Place) Again(ctx context.Context, cause error) error {
	p.Gate.open()
	_, err := p.Supervisor.RestartCounted(ctx, p.ID, cause)
	if err != nil && ctx.Err() == nil {
		p.Gate.shut()
	}
	return err
}

// skipped: somebody else was faster, or the tree is coming down.
func skipped(err error) error {
	for _, other := range []error{
		supervisor.ErrRunning, supervisor.ErrRestarting, supervisor.ErrAlreadyStarted, supervisor.ErrAlreadyPresent,
		supervisor.ErrStopping, supervisor.ErrNoSupervisor, supervisor.ErrPaused, supervisor.ErrTerminated,
	} {
		if errors.Is(err, other) {
			return fmt.Errorf("%w: %w", ErrSkipped, err)
		}
	}
	return err
}

// Gate lets the starts of an agent through that begin a run or go on with a
// chain of them, and no others: a supervisor that starts, or restarts all its
// children, begins none. It is used by one agent.
type Gate struct {
	// Ended, if not nil, is told of the end of each run before its supervisor
	// is: how, whether that was asked for, and whether its policy has another
	// run follow. Set it before the first start.
	Ended func(exit supervisor.Exit, asked, follows bool)

	policy aidefile.Policy

	mu      sync.Mutex
	fired   bool // a run is to begin
	follows bool // the chain goes on
}

// NewGate makes a gate, which is open if a run is in progress or pending.
func NewGate(p aidefile.Policy, open bool) *Gate { return &Gate{policy: p, follows: open} }

// open lets the next start through.
func (g *Gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fired = true
}

// shut takes back an open.
func (g *Gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fired = false
}

// Follow has another policy say from now on which ends are followed by a run.
func (g *Gate) Follow(p aidefile.Policy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policy = p
}

func (g *Gate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	pass := g.fired || g.follows
	g.fired, g.follows = false, false
	return pass
}

// ended opens the gate for the run that follows this end, if one does.
func (g *Gate) ended(exit supervisor.Exit, asked bool) {
	g.mu.Lock()
	g.follows = !asked && g.policy.Follows(exit)
	follows := g.follows
	g.mu.Unlock()
	if g.Ended != nil {
		g.Ended(exit, asked, follows)
	}
}

// Start is the Start function of the agent. A run that cannot be started has
// failed, as one that has ended: the policy of the agent decides about both.
func (g *Gate) Start(start func(context.Context) (supervisor.Process,
	error)) func(context.Context) (supervisor.Process, error) {
	return func(ctx context.Context) (supervisor.Process, error) {
		if !g.pass() {
			return nil, supervisor.ErrIgnore
		}
		p, err := start(ctx)
		switch {
		case errors.Is(err, supervisor.ErrIgnore), err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			exit := supervisor.Exit{Kind: supervisor.Failure, Err: fmt.Errorf("the run could not be started: %w", err)}
			g.ended(exit, false)
			return over(exit), nil
		}
		r := &run{Process: p, done: make(chan struct{})}
		go func() {
			<-p.Done()
			g.ended(p.Exit(), r.isAsked())
			close(r.done)
		}()
		return r, nil
	}
}

// run is a process of whose end the gate is told first.
type run struct {
	supervisor.Process
	done chan struct{}

	mu    sync.Mutex
	asked bool
}

func (r *run) Done() <-chan struct{} { return r.done }
func (r *run) Stop()                 { r.ask(); r.Process.Stop() }
func (r *run) Kill()                 { r.ask(); r.Process.Kill() }

func (r *run) ask() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = true
}

func (r *run) isAsked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// over is a run that has ended.
type over supervisor.Exit

func (over) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (o over) Exit() supervisor.Exit { return supervisor.Exit(o) }
func (over) Stop()                   {}
func (over) Kill()                   {}
