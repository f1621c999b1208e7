package daemon

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// builder makes supervisor specifications of a desired tree.
type builder struct {
	// start is the Start function of an agent.
	start func(a *spec.Agent, signal syscall.Signal) (func(context.Context) (supervisor.Process, error), error)
	// saved returns what is known of a node from before, or nil. It may be nil.
	saved     func(path string) (*supervisor.Saved, *supervisor.SavedSelf)
	suspended bool // the project is: the patrol starts it when it is not any more
	// retired are the names of what may take its time to end: what has one of
	// them now is started by the patrol, after that.
	retired map[string]bool
	// known returns the specification that an agent has already. It may be nil.
	known func(path string, a *spec.Agent) (supervisor.ChildSpec, bool)
}

// node makes the specification of a supervisor. One agent that does not get
// ready must not keep a fleet from starting, so failed starts are retried.
func (b *builder) node(n *spec.Node, path string) (*supervisor.Spec, error) {
	s := &supervisor.Spec{
		Name: n.Name, Strategy: n.Strategy, Limit: n.Limit, AutoShutdown: n.AutoShutdown,
		StartFailure: supervisor.Retry, StopTogether: !n.StopsInOrder(),
	}
	_, s.Saved = b.before(path)
	root := !strings.Contains(path, "/")
	inTurn := false // for the patrol, which has to know that what comes before is ready
	for _, c := range n.Children {
		childPath := path + "/" + c.Name()
		var child supervisor.ChildSpec
		if c.Node == nil {
			known := false
			if b.known != nil {
				child, known = b.known(childPath, c.Agent)
			}
			if !known {
				var err error
				if child, err = b.agent(c.Agent); err != nil {
					return nil, fmt.Errorf("agent %s: %w", childPath, err)
				}
			}
		} else {
			sub, err := b.node(c.Node, childPath)
			if err != nil {
				return nil, err
			}
			child = supervisor.ChildSpec{
				ID: c.Node.Name, Supervisor: sub, Restart: c.Node.Restart, Backoff: c.Node.Backoff,
				Significant: c.Node.Significant,
			}
		}
		child.Saved, _ = b.before(childPath)
		child.Deferred = deferred(n, root, c) || root && b.suspended || b.retired[c.Name()] &&
			(c.Node == nil || !c.Node.Retired)
		depends := len(c.DependsOn()) > 0 && !hasAidefile(c.Agent)
		inTurn = inTurn || depends
		child.InTurn = inTurn && !child.Deferred && n.Strategy != supervisor.OneForOne
		inTurn = inTurn || c.Node != nil // which has started before it is ready
		s.Children = append(s.Children, child)
	}
	return s, nil
}

func (b *builder) before(path string) (*supervisor.Saved, *supervisor.SavedSelf) {
	if b.saved == nil {
		return nil, nil
	}
	return b.saved(path)
}

// agent makes the specification of a leaf.
func (b *builder) agent(a *spec.Agent) (supervisor.ChildSpec, error) {
	_, signal, ok := spec.ParseSignal(a.Shutdown.Signal)
	if !ok {
		return supervisor.ChildSpec{}, fmt.Errorf("unknown signal %q", a.Shutdown.Signal)
	}
	start, err := b.start(a, signal)
	if err != nil {
		return supervisor.ChildSpec{}, err
	}
	c := supervisor.ChildSpec{
		ID: a.Name, Start: start, Restart: a.Restart, Backoff: a.Backoff, Limit: a.Limit, Significant: a.Significant,
		Shutdown: a.Shutdown.Grace + a.Hooks.Resting.Timeout,
	}
	if signal == syscall.SIGKILL {
		c.Shutdown = supervisor.BrutalKill
	}
	if a.Ready.Stated() {
		// The runtime has the first word: it knows what was wrong at the last look.
		c.StartTimeout = a.Ready.Timeout + max(0, a.Shutdown.Grace) + supervisor.KillGrace
		for _, h := range a.Hooks.Named() {
			c.StartTimeout += h.Timeout // those bound themselves
		}
	}
	return c, nil
}
