package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/supervisor"
)

// starter is the Start function of a child.
type starter = func(context.Context) (supervisor.Process, error)

// runGate passes only those starts of an agent that begin a run or continue a chain of
// runs. It stops the start of a supervisor, and a restart of all its children, from
// beginning a run. Each agent has a gate of its own.
type runGate struct {
	// ended, unless nil, is called with the exit of each run before its supervisor gets it.
	// asked is set if the run was asked to stop, and follows if another run follows by policy.
	// Set ended before the first start.
	ended func(exit supervisor.Exit, asked, follows bool)

	policy aidefile.Policy

	mu      sync.Mutex
	fired   bool // a trigger has started a run that has not passed yet
	follows bool // another run of the chain follows
}

// newRunGate returns a gate, which is open if a run is in progress or pending.
func newRunGate(p aidefile.Policy, open bool) *runGate { return &runGate{policy: p, follows: open} }

// open lets the next start pass.
func (g *runGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fired = true
}

// shut undoes open.
func (g *runGate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fired = false
}

// forget closes the gate also for a run that waits or is pending: its agent was stopped.
func (g *runGate) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fired, g.follows = false, false
}

// setPolicy replaces the policy that decides which exits are followed by a run.
func (g *runGate) setPolicy(p aidefile.Policy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policy = p
}

func (g *runGate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	pass := g.fired || g.follows
	g.fired, g.follows = false, false
	return pass
}

// exited opens the gate for the run that follows an exit, if one does.
func (g *runGate) exited(exit supervisor.Exit, asked bool) {
	g.mu.Lock()
	g.follows = !asked && (waits(exit.Err) || g.policy.Follows(exit))
	follows := g.follows
	g.mu.Unlock()
	if g.ended != nil {
		g.ended(exit, asked, follows)
	}
}

// wrap returns the Start function of the agent. A run that cannot be started has failed
// like one that has exited, so that the policy decides in both cases.
func (g *runGate) wrap(start starter) starter {
	return func(ctx context.Context) (supervisor.Process, error) {
		if !g.pass() {
			return nil, supervisor.ErrIgnore
		}
		p, err := start(ctx)
		switch {
		case waits(err):
			g.open() // for the start that follows
			return nil, err
		case errors.Is(err, supervisor.ErrIgnore), err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			exit := supervisor.Exit{Kind: supervisor.Failure, Err: fmt.Errorf("the run could not be started: %w", err)}
			g.exited(exit, false)
			return exitedRun(exit), nil
		}
		return &run{Process: p, gate: g}, nil
	}
}

// run is a process whose gate gets its exit before its supervisor does.
type run struct {
	supervisor.Process
	gate  *runGate
	asked atomic.Bool // it was asked to stop
}

func (r *run) Wait() supervisor.Exit {
	exit := r.Process.Wait()
	r.gate.exited(exit, r.asked.Load())
	return exit
}

func (r *run) Stop() { r.asked.Store(true); r.Process.Stop() }
func (r *run) Kill() { r.asked.Store(true); r.Process.Kill() }

// exitedRun is a run that has exited.
type exitedRun supervisor.Exit

func (r exitedRun) Wait() supervisor.Exit { return supervisor.Exit(r) }
func (exitedRun) Stop()                   {}
func (exitedRun) Kill()                   {}
