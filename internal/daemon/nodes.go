package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

const (
	kindAgent      = "agent"
	kindSupervisor = "supervisor"
)

// Nodes is part of api.Service.
func (c *Controller) Nodes(_ context.Context, path string) ([]api.Node, error) {
	nodes, err := c.nodesAt(path)
	api.DeriveStates(nodes)
	return nodes, err
}

// nodesAt lists a node and what is below it; supervisors have the states of their own.
func (c *Controller) nodesAt(path string) ([]api.Node, error) {
	path = c.full(path)
	if path == c.root.Path() {
		n := api.Node{
			Path: path, Kind: kindSupervisor, Strategy: c.fleet().tree.Root.Strategy.String(),
			State: c.rootState().String(),
			Node:  c.host, LimitMax: supervisor.Unlimited,
		}
		n.NeedsInput = c.needs(path)
		n.StartedAt, n.Uptime = &c.started, time.Since(c.started).Seconds()
		if why := c.suspendedBy(c.fleet(), path); why != "" && c.rootState() == supervisor.Running {
			n.State, n.Reason = supervisor.Suspended.String(), why
		}
		return c.walk([]api.Node{n}, c.root), nil
	}
	if !c.fleet().has(path) {
		return nil, c.noNode(path)
	}
	above, id, _ := cutLast(path)
	sup := c.find(above)
	if sup == nil {
		n, err := c.restingAt(path)
		if err != nil {
			return nil, err
		}
		return c.rest([]api.Node{n}, path, n), nil
	}
	info, err := c.child(sup, id)
	if err != nil {
		return nil, notFound(path, err)
	}
	return c.below([]api.Node{c.node(path, info)}, info.Sub), nil
}

// child looks up a child. A temporary one that has ended is not listed by its
// supervisor any more, but the file still names it.
func (c *Controller) child(sup *supervisor.Supervisor, id string) (supervisor.ChildInfo, error) {
	info, err := sup.Child(id)
	if errors.Is(err, supervisor.ErrNotFound) {
		return c.forgotten(sup.Path() + "/" + id), nil
	}
	return info, err
}

// forgotten is all that is known of a node that no supervisor lists.
func (c *Controller) forgotten(path string) supervisor.ChildInfo {
	_, id, _ := cutLast(path)
	info := supervisor.ChildInfo{
		ID: id, State: supervisor.Stopped, Reason: supervisor.ReasonTemporary, Incarnation: c.last(path),
		Limit: supervisor.Limit{Max: supervisor.Unlimited},
	}
	if s := c.live(path); s != nil {
		select {
		case <-s.Done():
			info.LastExit = s.Exit()
		default:
		}
	}
	return info
}

func (c *Controller) rootState() supervisor.State {
	select {
	case <-c.ended:
		return supervisor.Stopped
	case <-c.down:
		return supervisor.Stopping
	default:
		return supervisor.Running
	}
}

// below appends what is below the last node, whose supervisor is s if it is one that runs.
func (c *Controller) below(all []api.Node, s *supervisor.Supervisor) []api.Node {
	if s == nil {
		n := all[len(all)-1]
		return c.rest(all, n.Path, n)
	}
	return c.walk(all, s)
}

// walk appends what is below a supervisor. A root that has just ended has nothing.
func (c *Controller) walk(all []api.Node, s *supervisor.Supervisor) []api.Node {
	children, err := s.Children()
	if err != nil {
		if s == c.root {
			return all
		}
		n := all[len(all)-1]
		return c.rest(all, n.Path, n)
	}
	listed := make(map[string]bool, len(children))
	own := &all[len(all)-1]
	for _, info := range children {
		if info.Limit.Scope == supervisor.ScopeSupervisor {
			own.SetLimit(info.Limit, info.InWindow)
		}
	}
	for _, info := range children {
		listed[info.ID] = true
		all = append(all, c.node(s.Path()+"/"+info.ID, info))
		all = c.below(all, info.Sub)
	}
	if d := c.fleet().nodes[s.Path()]; d != nil {
		for _, child := range d.Children {
			if name := child.Name(); !listed[name] {
				path := s.Path() + "/" + name
				all = c.below(append(all, c.node(path, c.forgotten(path))), nil)
			}
		}
	}
	return all
}

func (c *Controller) node(path string, i supervisor.ChildInfo) api.Node {
	state, reason := stateOf(i.State, i.Reason)
	n := api.Node{
		Path: path, Kind: kindAgent, State: state, Reason: reason, Node: c.host,
		Incarnation: i.Incarnation, Restarts: i.Restarts, LimitMax: supervisor.Unlimited,
	}
	switch {
	case i.Limit.Scope == supervisor.ScopeChild:
		n.SetLimit(i.Limit, i.InWindow)
	case i.Limit.Max >= 0:
		n.LimitOf = parent(path)
	}
	if d := c.fleet().nodes[path]; d != nil {
		n.Kind, n.Strategy, n.Restart = kindSupervisor, d.Strategy.String(), d.Restart.String()
		n.Pool = c.pools.API(path)
		n.NeedsInput = c.needs(path)
	} else {
		if a := c.fleet().agents[path]; a != nil {
			n.Runtime, n.Terminal, n.Restart = a.Runtime.String(), hasTerminal(a), a.Restart.String()
			n.User, n.NoNewPrivileges = a.User, a.NoNewPrivileges
		}
		n.NeedsInput = c.needs(path)
		n.Loop = loopOf(i, c.aider(path) != nil)
	}
	if i.State == supervisor.Running || i.State == supervisor.Stopping || i.State == supervisor.Starting {
		n.StartedAt, n.Uptime = &i.StartedAt, i.Uptime.Seconds()
	}
	if n.Kind == kindAgent && i.State == supervisor.Running {
		if s := c.live(path); s != nil {
			o := s.Observe()
			n.PID, n.StatusText = o.PID, o.Said.Status
		}
	}
	if n.Kind == kindAgent {
		n.Vitals, n.Drain = c.health.Vitals(path), c.drains.API(path)
	}
	if !i.NextAt.IsZero() {
		n.NextAt = &i.NextAt
	}
	if aide, next := c.aideNode(path, i); aide != nil {
		if n.Aide = aide; n.NextAt == nil {
			n.NextAt = next
		}
		// which its supervisor does not know
		if why := c.aider(path).heldBy(); why != supervisor.NoReason && i.State == supervisor.Stopped {
			i.State, i.Reason = supervisor.Suspended, why
			n.State, n.Reason = stateOf(i.State, i.Reason)
		}
		n.Reason = aideReason(n)
	}
	if before := c.fleet().after[path]; before != "" && i.State == supervisor.Waiting &&
		i.Reason == supervisor.NoReason {
		n.Reason = "waits for its turn after " + before
	}
	if w, ok := c.patrols.waits(path); ok {
		switch {
		case w.For != "":
			n.Reason = "waits for " + w.For
		case n.NextAt == nil:
			n.Reason, n.NextAt = fmt.Sprintf("to be started again (%v), but was started too often", w.Cause), &w.Until
		}
	}
	if i.LastExit.Kind != supervisor.NoExit {
		setLastExit(&n, i.LastExit)
	}
	n.StoppedByHand = stoppedByHand(i)
	c.shownSuspended(&n)
	return n
}

// setLastExit fills in how a node ended last. A clean end has the word of the API.
func setLastExit(n *api.Node, x supervisor.Exit) {
	n.LastExit, n.Failed = x.String(), !x.Clean()
	if x.Err == nil {
		n.LastExit = x.Kind.String()
	}
}

// hasTerminal reports whether an agent runs in a terminal.
func hasTerminal(a *spec.Agent) bool { return a.Terminal || a.Runtime == spec.Tmux }

// live is the last session of an agent; nil if there was none yet.
func (c *Controller) live(path string) runtime.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[path]
}

// last is the number of the last incarnation of an agent.
func (c *Controller) last(path string) uint64 {
	n := c.journal.lastStart(path)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[path]; s != nil {
		n = max(n, s.Observe().Incarnation)
	}
	return n
}

// locate returns the supervisor of a node that is not the root, and its ID there.
func (c *Controller) locate(path string) (*supervisor.Supervisor, string, error) {
	if c.fleet().agents[path] == nil && c.fleet().nodes[path] == nil {
		return nil, "", c.noNode(path)
	}
	above, id, _ := cutLast(path)
	sup := c.find(above)
	if sup == nil {
		return nil, "", fmt.Errorf("%s: its supervisor does not run; coppice explain %[1]s says why: %w", path,
			api.ErrConflict)
	}
	return sup, id, nil
}

func cutLast(path string) (above, id string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// notFound maps the library's errors to those of the API.
func notFound(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, supervisor.ErrNotFound):
		return fmt.Errorf("%s: %w", path, api.ErrNotFound)
	case errors.Is(err, api.ErrInvalid), errors.Is(err, api.ErrConflict):
		return err // which says so itself
	case errors.Is(err, supervisor.ErrRunning):
		return fmt.Errorf("%w: %s is already running", api.ErrConflict, path)
	case errors.Is(err, supervisor.ErrNoSupervisor), errors.Is(err, supervisor.ErrStopping):
		return fmt.Errorf("%s: %w", path, api.ErrStopping)
	}
	return fmt.Errorf("%w: %w", api.ErrConflict, err)
}
