package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/patrol"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// crew is a pool at work: a goroutine that learns how many instances are wanted
// and what becomes of those that there are, lets package pool decide, and carries
// that out. Nothing that takes its time holds it up: checks, starts and stops go on
// beside it and wake it when they are done.
type crew struct {
	c     *Controller
	path  string
	wake  chan struct{} // holds a token when there may be something to decide
	look  chan struct{} // holds a token when the check is to run at once
	gone  chan struct{} // closed when it is in the fleet no more
	first chan struct{} // closed when those are in the fleet that the first check has asked for, or never will be
	once  sync.Once

	laid []string // instances in the fleet; guarded by Controller.applying

	mu        sync.Mutex
	template  *spec.Agent
	demand    pool.Demand
	size      int             // that was told last
	names     []string        // instances that there should be in the fleet, those that are drained among them
	adding    map[string]bool // of names: not in the fleet yet
	leaving   map[string]bool // not of names: not stopped yet
	moving    int             // goroutines that change the fleet
	retired   bool            // the file has no such pool any more: those who are there may finish
	booted    bool
	asked     bool // the first check has answered, or failed
	fresh     bool // a check has answered since the last decision
	checking  bool
	checkedAt time.Time // when the last check ended
}

func newCrew(c *Controller, path string, template *spec.Agent) *crew {
	return &crew{
		c: c, path: path, template: template,
		wake: make(chan struct{}, 1), look: make(chan struct{}, 1), gone: make(chan struct{}), first: make(chan struct{}),
		adding: make(map[string]bool), leaving: make(map[string]bool),
	}
}

// poke puts a token into a channel that has room for one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// arrived lets those go on who wait for the first instances.
func (w *crew) arrived() { w.once.Do(func() { close(w.first) }) }

// run is the life of a crew. It ends with the controller, or when the file has
// no such pool any more and all who were in it are gone.
func (w *crew) run(ctx context.Context) {
	defer w.arrived()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.gone:
		case <-w.c.down: // what runs for the pool must not hold up the end
		case <-ctx.Done():
		}
		cancel()
	}()
	w.boot(ctx)
	answers := make(chan answer, 1)
	interval := w.interval()
	due, tick, deadline := true, time.NewTimer(interval), time.NewTimer(0)
	defer tick.Stop()
	defer deadline.Stop()
	for ctx.Err() == nil {
		due = due && !w.ask(ctx, answers)
		if next := w.act(); next.IsZero() {
			deadline.Stop()
		} else {
			deadline.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
			if now := w.interval(); now != interval {
				interval = now
				tick.Reset(interval)
			}
		case <-deadline.C:
		case <-w.look:
			due = true
		case <-tick.C:
			due = true
			tick.Reset(interval)
		case a := <-answers:
			w.answered(a)
		}
	}
}

// act decides what is to be done, and begins it. It returns when to decide
// again if nothing happens before; zero for never. Where it cannot be seen
// how the instances are, nothing is decided.
func (w *crew) act() (next time.Time) {
	now := time.Now()
	seen, known := w.see()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !known || !w.booted {
		return time.Time{}
	}
	steps, next := pool.Plan(now, w.template.Instances(w.settleSize()), w.members(seen))
	w.fresh = false
	changed := false
	for _, s := range steps {
		path := w.path + "/" + s.Name
		switch s.Verb {
		case pool.Add:
			w.names = append(w.names, s.Name)
			w.adding[s.Name] = true
			changed = true
		case pool.Dismiss:
			w.c.drains.DecideSurplus(path, s.Why)
			w.names = slices.DeleteFunc(w.names, func(name string) bool { return name == s.Name })
			w.leaving[s.Name] = true
			changed = true
		case pool.Ask:
			timeout, why := w.template.Pool.DrainTimeout, w.surplusWhy()
			if until := now.Add(timeout); next.IsZero() || until.Before(next) {
				next = until
			}
			incarnation := seen[s.Name].Incarnation
			w.c.background.run(func(context.Context) { w.c.drains.BeginSurplus(path, incarnation, why, timeout) })
		case pool.GoOn:
			w.c.background.run(func(context.Context) { w.c.drains.CancelSurplus(path) })
		}
	}
	over := w.retired && w.moving == 0 && len(w.names)+len(w.leaving) == 0
	if changed || over {
		w.move()
	} else if w.asked && w.moving == 0 {
		w.arrived()
	}
	return next
}

// runs is the supervisor of the pool; nil if it does not run, or is not to.
func (w *crew) runs() *supervisor.Supervisor {
	if w.c.fleet().suspended(w.path) {
		return nil
	}
	return w.c.find(w.path)
}

// sight is an instance as its supervisor sees it.
type sight struct {
	supervisor.ChildInfo
	comes bool // it is about to be taken over, or to be started
}

// see is how the instances are, by name. Of a pool that is retired and does not
// run none is left, unless it has yet to be taken over.
func (w *crew) see() (seen map[string]sight, known bool) {
	select {
	case <-w.c.down:
		return nil, false
	default:
	}
	coming := w.coming() // first: what comes meanwhile is seen to be there
	sup := w.runs()
	if sup == nil {
		return nil, w.isRetired() && !slices.Contains(slices.Collect(maps.Values(coming)), true)
	}
	children, err := sup.Children()
	if err != nil {
		return nil, false
	}
	select {
	case <-w.c.down: // what was let go of looks as if it had ended
		return nil, false
	default:
	}
	seen = make(map[string]sight, len(children))
	for _, i := range children {
		waits := i.State == supervisor.Waiting
		seen[i.ID] = sight{i, waits && (coming[i.ID] || i.Reason != supervisor.ReasonDeferred)}
	}
	return seen, true
}

// coming are the instances that are to be taken over, or that the patrol is
// starting; others that wait do so until they may be started.
func (w *crew) coming() map[string]bool {
	w.mu.Lock()
	names := slices.Clone(w.names)
	w.mu.Unlock()
	coming := make(map[string]bool)
	for _, name := range names {
		path := w.path + "/" + name
		w.c.mu.Lock()
		_, adopted := w.c.adopt[path]
		w.c.mu.Unlock()
		coming[name] = adopted || w.c.patrols.isBusy(path)
	}
	return coming
}

// members are the instances as package pool sees them. Needs mu.
func (w *crew) members(seen map[string]sight) []pool.Member {
	all := slices.Clone(w.names)
	for name := range w.leaving {
		all = append(all, name)
	}
	all = w.template.Sorted(all)
	members := make([]pool.Member, len(all))
	for n, name := range all {
		m := pool.Member{Name: name, Leaving: w.leaving[name]}
		info, listed := seen[name]
		switch {
		case w.adding[name], info.comes:
			m.Lives, m.Held = true, true
		case listed:
			m.Lives = running(info.State)
			m.Again = w.fresh && info.State == supervisor.Stopped && lifeAs(&info.ChildInfo) == patrol.Done
		default:
			m.Again = w.fresh // temporary, and ended
		}
		if d, ok := w.c.drains.Of(w.path + "/" + name); ok && !d.Pool {
			m.Held = true
		} else if ok {
			m.Drain = &pool.Drain{Finished: d.Finished, Until: d.Deadline}
			m.Lives = m.Lives && !d.Exited
		}
		members[n] = m
	}
	return members
}

// move makes the fleet have the instances that it should, beside the crew. Needs mu.
func (w *crew) move() {
	w.moving++
	w.c.background.run(func(ctx context.Context) {
		defer func() {
			w.mu.Lock()
			w.moving--
			w.mu.Unlock()
			poke(w.wake)
		}()
		for !w.c.relay(ctx, w) {
			select { // above all because the store cannot be read
			case <-time.After(relayPause):
			case <-ctx.Done():
				return
			}
		}
	})
}

func (w *crew) isRetired() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retired
}

// intended is what the fleet should have of the pool.
func (w *crew) intended() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.template.Sorted(w.names)
}

// listed notes that instances are in the fleet, so that it is seen how they are.
func (w *crew) listed(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		delete(w.adding, name)
	}
}

// left notes that an instance is gone.
func (w *crew) left(name string) {
	w.mu.Lock()
	delete(w.leaving, name)
	w.mu.Unlock()
	poke(w.wake)
}
