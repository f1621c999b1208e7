package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// strangers are what lives in slots of the project that no agent of the file
// has: what could not be stopped in time when it left the file, what another
// program has started there. It is looked for beside the rounds, by the names of
// the slots, so that a fleet at rest costs the reading of a directory. What is
// not in a slot of this project, such as a session that somebody has opened in
// its tmux server, is never seen.
type strangers struct {
	mu      sync.Mutex
	looking bool
	looked  time.Time               // when the last look began
	seen    map[string][]agent.Slot // by path
	changes int                     // of what was seen, by others than a look
	failed  map[string]string       // why one could not be stopped, as it was told
}

// A surveyor is a runtime that can look at some of its slots only.
type surveyor interface {
	Among(ctx context.Context, which func(slot string) bool) ([]runtime.Observation, error)
}

const (
	// lookPause is the time between two looks at least: rounds come in storms.
	lookPause = time.Second
	// lookPatience is how long whoever asks for a round waits for a look.
	lookPatience = 5 * time.Second
)

// lookForStrangers has somebody look, unless somebody does or has just done.
func (c *Controller) lookForStrangers() {
	s := &c.strangers
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looking || time.Since(s.looked) < lookPause {
		return
	}
	s.looking = true
	c.background.run(func(ctx context.Context) {
		news := c.seek(ctx)
		s.mu.Lock()
		s.looking = false
		s.mu.Unlock()
		if news {
			c.patrols.kick()
		}
	})
}

// seek looks once, and reports whether something is there that was not before.
func (c *Controller) seek(ctx context.Context) (news bool) {
	s, f := &c.strangers, c.fleet()
	s.mu.Lock()
	before := s.changes
	s.looked = time.Now()
	s.mu.Unlock()
	found := make(map[string][]agent.Slot)
	for _, kind := range slices.Sorted(maps.Keys(c.agents.Runtimes())) {
		place, ok := c.agents.Runtimes()[kind].(surveyor)
		if !ok {
			continue // nothing outlives those that know it
		}
		all, err := place.Among(ctx, func(slot string) bool { return !f.Slots[slot] })
		if err != nil {
			c.opts.Logger.Debug("cannot look for what nobody knows", "runtime", kind, "error", err)
			continue // nothing is known, and nothing is done
		}
		for _, o := range all {
			if o.Life != runtime.Dead { // what has ended hurts nobody
				found[o.Path] = append(found[o.Path], agent.Slot{Kind: kind, Observation: o})
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes != before {
		return false // it may be out of date
	}
	for path := range found {
		news = news || s.seen[path] == nil
	}
	s.seen = found
	maps.DeleteFunc(s.failed, func(path string, _ string) bool { return found[path] == nil })
	return news
}

// of is what was seen of a stranger.
func (s *strangers) of(path string) []agent.Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[path]
}

// left: what was at a path is not there any more.
func (s *strangers) left(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	delete(s.seen, path)
	delete(s.failed, path)
}

// add adds the strangers to what was observed, but for those that have become
// known meanwhile.
func (s *strangers) add(all map[string]*reconcile.Observed, f *fleet.Fleet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, in := range s.seen {
		if all[path] != nil || f.Has(path) {
			continue
		}
		o := &reconcile.Observed{Path: path, Orphan: true}
		if slices.ContainsFunc(in, func(s agent.Slot) bool { return s.Life == runtime.Alive }) {
			o.Phase = reconcile.Running
		}
		all[path] = o
	}
}

// supervised reports whether a supervisor has a child at a path.
func (c *Controller) supervised(path string) bool {
	above, id, _ := cutLast(path)
	sup := c.find(above)
	if sup == nil {
		return false
	}
	_, err := sup.Child(id)
	return err == nil
}

// expel stops a stranger.
func (c *Controller) expel(ctx context.Context, path string) {
	var errs []error
	for _, seen := range c.strangers.of(path) {
		if seen.Life != runtime.Alive {
			continue
		}
		rt := c.agents.Runtimes()[seen.Kind]
		s, err := rt.Adopt(ctx, path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && s.Observe().Incarnation != seen.Incarnation {
			continue // it has gone, or somebody has started another one: the next look tells
		}
		if err == nil {
			err = agent.Dismiss(ctx, s, path, supervisor.DefaultShutdown)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.log.Append(event.Event{
			Type: event.AgentStopped, Path: path, Incarnation: seen.Incarnation, Actor: "controller",
			Message: fmt.Sprintf("%s stopped: no supervisor knew it", path),
		})
		c.agents.Remove(ctx, rt, path)
	}
	err := errors.Join(errs...)
	if err == nil {
		c.strangers.left(path)
		return
	}
	c.strangers.mu.Lock()
	told := c.strangers.failed[path] == err.Error()
	if c.strangers.failed == nil {
		c.strangers.failed = make(map[string]string)
	}
	c.strangers.failed[path] = err.Error()
	delete(c.strangers.seen, path) // until the next look
	c.strangers.mu.Unlock()
	if !told {
		c.opts.Logger.Error("what no supervisor knows cannot be stopped; it is tried again", "path", path, "error", err)
	}
}
