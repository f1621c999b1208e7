package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// crews are the pools of a controller.
type crews struct {
	check   func(context.Context, pool.Check) (int, error)
	clear   func(context.Context) error // ends what the checks of the last controller have left
	cleared chan struct{}               // closed when that is done: no check runs before
	mu      sync.Mutex
	byPath  map[string]*crew
}

func newCrews(o Options) *crews {
	s := &crews{check: o.check, clear: func(context.Context) error { return nil }, cleared: make(chan struct{}), byPath: make(map[string]*crew)}
	if s.check == nil {
		r := pool.NewRunner(o.Socket)
		s.check, s.clear = r.Run, r.Clear
	}
	return s
}

func (s *crews) of(path string) *crew {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byPath[path]
}

// all are the crews at the moment, by path.
func (s *crews) all() []*crew {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.byPath), func(a, b *crew) int { return strings.Compare(a.path, b.path) })
}

// layout is the tree of a file with the instances that its pools have at the
// moment, and with those pools that it does not have any more and that still have
// some. Needs Controller.applying.
func (s *crews) layout(file *spec.Tree) *spec.Tree {
	declared := file.Pools()
	laid, retired := make(map[string][]string), make(map[string]*spec.Agent)
	for _, w := range s.all() {
		laid[w.path] = w.laid
		if template := w.remains(); declared[w.path] == nil && template != nil {
			retired[w.path] = template
		}
	}
	return file.Retain(retired).Layout(laid)
}

// wakeCrew lets the pool that an agent is an instance of decide again; nothing
// happens if it is of none.
func (c *Controller) wakeCrew(path string) {
	above, _, _ := cutLast(path)
	if w := c.crews.of(above); w != nil {
		poke(w.wake)
	}
	if w := c.crews.of(path); w != nil {
		poke(w.wake)
	}
}

// checkPools lets all pools ask at once how many instances are wanted.
func (c *Controller) checkPools() {
	for _, w := range c.crews.all() {
		poke(w.look)
	}
}

// adjustCrews makes the pools those of a fleet, and returns those that are
// retired by that. Needs applying.
func (c *Controller) adjustCrews(f *fleet) (retired []string) {
	declared, stay := f.file.Pools(), f.tree.Pools()
	c.crews.mu.Lock()
	defer c.crews.mu.Unlock()
	for path, w := range c.crews.byPath {
		switch {
		case declared[path] != nil:
		case stay[path] == nil:
			delete(c.crews.byPath, path)
			close(w.gone)
			w.removed()
		case w.retire():
			retired = append(retired, path)
		}
	}
	for path, n := range declared {
		w := c.crews.byPath[path]
		if w == nil {
			w = newCrew(c, path, n.Template)
			c.crews.byPath[path] = w
			c.background.run(w.run)
			continue
		}
		w.declare(n.Template)
	}
	return retired
}

// relay gives the fleet the instances that a pool should have, and waits until
// those that are not wanted are gone; the patrol starts those that are new. It
// reports false if nothing could be done.
func (c *Controller) relay(ctx context.Context, w *crew) bool {
	c.applying.Lock()
	if c.crews.of(w.path) != w {
		c.applying.Unlock()
		return true // it is gone
	}
	before := w.laid
	w.laid = w.intended()
	old := c.fleet()
	next, changes, _, err := c.replace(ctx, old.file, old.config)
	if err != nil {
		w.laid = before
		c.applying.Unlock()
		c.opts.Logger.Warn("a pool cannot be changed", "path", w.path, "error", err)
		return false
	}
	c.carry(ctx, next, changes)
	w.listed(w.laid)
	gone := slices.DeleteFunc(changes.Removed, next.has) // what has taken the place of a pool stays
	defer c.patrols.claim(gone)()
	c.patrols.kick()
	c.applying.Unlock()
	parallel(gone, func(path string) {
		c.withdraw(ctx, path)
		if above, name, _ := cutLast(path); above == w.path {
			c.drains.Conclude(ctx, path) // also where the pool itself does not run
			w.left(name)
		}
	})
	return true
}

// recallCrews readies the pools as they were, before anything is looked for:
// those instances are there that have not ended, as far as is known, and those that
// are to be started at once.
func (c *Controller) recallCrews(ctx context.Context, records map[string]*record, afresh bool) error {
	stored, _, err := c.opts.Store.Snapshot(ctx, poolPrefix)
	if err != nil {
		return fmt.Errorf("reading how many instances were wanted: %w", err)
	}
	demands := make(map[string]pool.Demand)
	for _, s := range stored {
		var d savedDemand
		if json.Unmarshal(s.Value, &d) == nil && !afresh {
			demands[d.Path] = pool.Demand{Asked: d.Asked, Known: d.Known}
		}
	}
	enroll := func(w *crew) {
		for at, r := range records {
			if name, ok := strings.CutPrefix(at, w.path+"/"); ok && !r.Ended && r.Incarnation > 0 && !strings.Contains(name, "/") {
				w.names = append(w.names, name)
			}
		}
		w.names = w.template.Sorted(w.names)
		w.laid = w.names
		c.crews.byPath[w.path] = w
	}
	for path, n := range c.fleet().file.Pools() {
		w := newCrew(c, path, n.Template)
		w.demand = demands[path]
		w.size = w.demand.Size(n.Template.Pool)
		if !n.Template.Pool.OnBoot.Exists() {
			w.names = n.Template.Instances(w.size)
		}
		enroll(w)
	}
	retired, err := c.recallRetired(ctx)
	for _, w := range retired {
		enroll(w)
	}
	c.relayFleet()
	return err
}

// enlist adds instances of pools that nobody knew of and that live.
func (c *Controller) enlist(found map[string][]sighting) {
	more := false
	for path, all := range found {
		above, name, _ := cutLast(path)
		w := c.crews.of(above)
		if w == nil || slices.Contains(w.names, name) || !slices.ContainsFunc(all, sighting.lives) {
			continue
		}
		w.names = w.template.Sorted(append(w.names, name))
		w.laid, more = w.names, true
	}
	if more {
		c.relayFleet()
	}
}

// relayFleet makes the first fleet anew, with the instances of its pools.
func (c *Controller) relayFleet() {
	f := c.fleet()
	next := newFleet(c.crews.layout(f.file), f.config)
	next.file = f.file
	c.wanted.Store(next)
}

// startCrews lets the pools that there are begin. What checks of the last
// controller have left is ended first, also those of pools that are gone.
func (c *Controller) startCrews() {
	c.background.run(func(ctx context.Context) {
		defer close(c.crews.cleared)
		if err := c.crews.clear(ctx); err != nil && ctx.Err() == nil {
			c.opts.Logger.Warn("checks of pools may run that nobody waits for", "error", err)
		}
	})
	for _, w := range c.crews.all() {
		c.background.run(w.run)
	}
}

// crewsArrived waits until all pools that run have in the fleet what their first
// checks have asked for.
func (c *Controller) crewsArrived(ctx context.Context) error {
	for _, w := range c.crews.all() {
		for arrived := false; !arrived; {
			select {
			case <-w.first:
				arrived = true
			case <-time.After(arrivalPause):
				// It is suspended, or its start has failed.
				arrived = c.find(w.path) == nil || c.fleet().suspended(w.path)
			case <-c.ended:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// arrivalPause is how often is looked whether there is still something to wait for.
const arrivalPause = 500 * time.Millisecond

// surplus says why an instance is not started by hand: it is not wanted any more.
func (c *Controller) surplus(path string, action api.Action) error {
	if action != api.Start && action != api.Resume && action != api.Restart {
		return nil
	}
	if d, ok := c.drains.Of(path); !ok || !d.Pool {
		return nil
	}
	above, _, _ := cutLast(path)
	return fmt.Errorf("%w: %s is no longer wanted by its pool and is asked to finish; coppice explain %s says how many it wants", api.ErrConflict, path, above)
}

// shown is the pool as the API shows it.
func (w *crew) shown() *api.Pool {
	seen, _ := w.see()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.template.Pool
	s := &api.Pool{
		Retired: w.retired, Size: w.wantedSize(), Min: p.Min, Max: p.Ceiling(), Answered: w.demand.Known, Answer: w.demand.Asked,
		Checking: w.checking && p.Check != nil, Booting: !w.booted,
	}
	for _, m := range w.members(seen) {
		if m.Lives {
			s.Instances++
			if m.Drain != nil {
				s.Draining++
			}
		}
	}
	if !w.checkedAt.IsZero() && p.Check != nil {
		at := w.checkedAt
		s.CheckedAt = &at
	}
	if w.demand.Problem != nil {
		s.Error = w.demand.Problem.Error()
	}
	return s
}

// running reports whether a state is one of something that lives.
func running(s supervisor.State) bool {
	return s == supervisor.Running || s == supervisor.Starting || s == supervisor.Stopping
}
