package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// updateTime is how long a supervisor may take to hear of its new
// specification: one that is restarting its children hears of it afterwards.
const updateTime = 2 * time.Second

// together is how many agents are started or stopped at the same time.
const together = 16

// RestartError: a file that is valid asks for what a running controller cannot change.
type RestartError struct{ What, From, To string }

func (e *RestartError) Error() string {
	return fmt.Sprintf("%s has changed from %s to %s, which takes a restart of the daemon: coppice down, then coppice up", e.What, e.From, e.To)
}

// apply makes another tree the one that is wanted, and touches only what
// differs: what is no longer there is stopped, what is new is started, agents
// that differ in what a running process cannot change are renewed, everything
// else is changed in place. Stops by hand, quarantines and counters stay with
// the path. It returns when all of that is done or has failed, which the log
// tells of each agent; what a supervisor is too busy for happens later. An
// error means that nothing has changed.
func (c *Controller) apply(ctx context.Context, tree *spec.Tree, config ConfigInfo) (spec.Changes, error) {
	c.applying.Lock()
	defer c.applying.Unlock()
	old := c.fleet()
	if err := c.accepts(old.tree, tree); err != nil {
		return spec.Changes{}, err
	}
	next := newFleet(tree, config)
	if err := next.check(c.places); err != nil {
		return spec.Changes{}, err
	}
	known, err := c.pastOf(ctx, next)
	if err != nil {
		return spec.Changes{}, err
	}
	if err := next.specify(c, old, c.aideSaved(next, known)); err != nil {
		return spec.Changes{}, err
	}
	changes := spec.Compare(old.tree, tree)
	c.wanted.Store(next)
	c.declareBeliefs(next)

	parallel(changes.Removed, func(path string) { c.withdraw(ctx, old, path) })
	for _, path := range changes.Supervisors { // parents first: one that does not run starts with what it is given
		c.update(ctx, next, path, changes.Added)
	}
	parallel(changes.Added, func(path string) { c.ensureNode(ctx, path) })
	parallel(changes.Renewed, func(path string) { c.renewAgent(ctx, old, path) })
	c.followAides()
	return changes, nil
}

// accepts reports what of a tree a running controller cannot change.
func (c *Controller) accepts(old, tree *spec.Tree) error {
	if old.Root.Name != tree.Root.Name {
		return &RestartError{"the name of the project", spec.Quote(old.Root.Name), spec.Quote(tree.Root.Name)}
	}
	if old.Persistence != tree.Persistence {
		where := func(p spec.Persistence) string { return strings.TrimSpace(p.Backend.String() + " " + p.Path) }
		return &RestartError{"where the state is kept", where(old.Persistence), where(tree.Persistence)}
	}
	return nil
}

// parallel does something to all paths, some at a time, and waits for the end of it.
func parallel(paths []string, do func(string)) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, together)
	for _, path := range paths {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			do(path)
		})
	}
	wg.Wait()
}

// withdraw stops what is not wanted any more, with all below it, and forgets it.
func (c *Controller) withdraw(ctx context.Context, old *fleet, path string) {
	above, id, _ := cutLast(path)
	sup := c.find(above)
	var gone []string // agents
	for agent := range old.agents {
		if agent == path || strings.HasPrefix(agent, path+"/") {
			gone = append(gone, agent)
		}
	}
	slices.Sort(gone)
	for _, agent := range gone {
		c.dropRestart(agent, 0, "it is not wanted any more")
		c.part(agent)
	}
	for sup != nil {
		err := sup.TerminateChild(ctx, id)
		if err == nil {
			err = sup.DeleteChild(id)
		}
		if errors.Is(err, supervisor.ErrRunning) || errors.Is(err, supervisor.ErrRestarting) {
			continue // somebody has started it meanwhile
		}
		if err != nil && !errors.Is(err, supervisor.ErrNotFound) && !errors.Is(err, supervisor.ErrNoSupervisor) {
			c.opts.Logger.Error("what is not wanted any more cannot be stopped", "path", path, "error", err)
			return
		}
		break
	}
	for _, agent := range gone {
		c.endDrain(ctx, agent)
		c.mu.Lock()
		delete(c.sessions, agent)
		delete(c.typing, agent)
		c.mu.Unlock()
		var last []store.Op
		if c.fleet().agents[agent] == nil { // else its slot is used again
			c.remove(ctx, c.places[old.agents[agent].Runtime.String()], agent)
			last = append(last, c.lastOf(agent, c.last(agent)).op())
		}
		c.log.Append(event.Event{
			Type: event.AgentRemoved, Path: agent, Incarnation: c.last(agent), Actor: "controller",
			Message: agent + " is not in the file any more, and is gone",
		}, last...)
	}
}

// part remembers what is known of an agent that is about to go, for the day that
// it is wanted again.
func (c *Controller) part(path string) {
	above, id, _ := cutLast(path)
	sup := c.find(above)
	if sup == nil {
		return
	}
	if saved, _, err := sup.Save(id); err == nil {
		c.mu.Lock()
		c.gone[path] = saved
		c.mu.Unlock()
	}
}

// lastOf is the last record of an agent that is not wanted any more. It is
// started when it is wanted again, unless a person or a limit has decided otherwise.
func (c *Controller) lastOf(path string, incarnation uint64) *record {
	c.mu.Lock()
	saved, ok := c.gone[path]
	c.mu.Unlock()
	if !ok {
		return &record{Path: path, Incarnation: incarnation, Ended: true, State: supervisor.Waiting.String()}
	}
	r := newRecord(path, max(incarnation, saved.Incarnation), true, saved)
	if !r.lasts() {
		r.State, r.Reason = supervisor.Waiting.String(), ""
	}
	return r
}

// update tells a supervisor that runs of its new specification. Those of its
// children that are new are listed and have yet to be started.
func (c *Controller) update(ctx context.Context, f *fleet, path string, added []string) {
	sup := c.find(path)
	if sup == nil {
		return // it starts with what its parent has been told
	}
	s := *f.spec(path)
	s.Children = slices.Clone(s.Children)
	for i := range s.Children {
		s.Children[i].Deferred = slices.Contains(added, path+"/"+s.Children[i].ID)
	}
	done := make(chan error, 1)
	go func() { done <- sup.Update(s) }()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, supervisor.ErrNoSupervisor) && !errors.Is(err, supervisor.ErrStopping) {
			c.opts.Logger.Error("a supervisor cannot be changed", "path", path, "error", err)
		}
	case <-time.After(updateTime):
		c.opts.Logger.Info("a supervisor is busy and hears of its change later", "path", path)
	case <-ctx.Done():
	}
}

// ensureNode starts what is wanted and does not run, unless something holds it.
func (c *Controller) ensureNode(ctx context.Context, path string) {
	sup, id, err := c.locate(path)
	if err == nil {
		_, err = sup.EnsureChild(ctx, id)
	}
	c.untroubled("what is wanted cannot be started", path, err)
}

// renewAgent starts an agent again that runs something else than what is wanted.
func (c *Controller) renewAgent(ctx context.Context, old *fleet, path string) {
	if isAide(old.agents[path]) && isAide(c.fleet().agents[path]) {
		return // the run in progress ends as it is, and the next one has the change
	}
	sup, id, err := c.locate(path)
	if err == nil {
		_, err = sup.RenewChild(ctx, id)
	}
	if before, home := c.places[old.agents[path].Runtime.String()], c.home(path); err == nil && home != nil && before != home {
		c.remove(ctx, before, path)
	}
	c.untroubled("an agent that has changed cannot be started again", path, err)
}

// untroubled notes an error that is not told by an event, nor an answer of
// somebody who takes care of the node already.
func (c *Controller) untroubled(what, path string, err error) {
	var start *supervisor.StartError
	var held *supervisor.HeldError
	switch {
	case err == nil, errors.As(err, &start), errors.As(err, &held),
		errors.Is(err, supervisor.ErrRunning), errors.Is(err, supervisor.ErrNotRunning), errors.Is(err, supervisor.ErrRestarting),
		errors.Is(err, supervisor.ErrTerminated), errors.Is(err, supervisor.ErrPaused), errors.Is(err, supervisor.ErrStopping),
		errors.Is(err, supervisor.ErrNoSupervisor), errors.Is(err, context.Canceled):
	default:
		c.opts.Logger.Warn(what, "path", path, "error", err)
	}
}
