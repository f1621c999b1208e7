package pool

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Controller runs the control loop of one pool. The loop observes the instances and the answers of
// the check, lets Plan decide, and carries out the steps. It never blocks: checks, starts and stops
// run in the background and wake it when they are done.
type Controller struct {
	m        *Manager
	path     string
	wake     chan struct{} // holds a token when there may be something to decide
	checkNow chan struct{} // holds a token when the check should run at once
	gone     chan struct{} // closed when the fleet no longer has the pool
	first    chan struct{} // closed when the fleet has the instances of the first answer, or never will

	// closeFirst closes first. It may be called more than once.
	closeFirst func()

	mu        sync.Mutex
	template  *spec.Agent
	demand    Demand
	size      int             // the size that was logged last
	laid      []string        // instances that the fleet has
	names     []string        // instances that the fleet should have, including drained ones
	adding    map[string]bool // the part of names that is not in the fleet yet
	removing  map[string]bool // instances not in names that are not stopped yet
	applying  int             // goroutines that change the fleet
	retired   bool            // the file no longer has the pool: its instances may finish
	booted    bool            // on_boot has run
	asked     bool            // the first check has answered, or failed
	fresh     bool            // a check has answered since the last decision
	checking  bool
	checkedAt time.Time // when the last check ended
}

// retryDelay is the time between two attempts to change the fleet.
const retryDelay = 500 * time.Millisecond

func newController(m *Manager, path string, template *spec.Agent) *Controller {
	first := make(chan struct{})
	return &Controller{
		m: m, path: path, template: template,
		wake: make(chan struct{}, 1), checkNow: make(chan struct{}, 1),
		gone: make(chan struct{}), first: first, closeFirst: sync.OnceFunc(func() { close(first) }),
		adding: make(map[string]bool), removing: make(map[string]bool),
	}
}

// Path returns the path of the pool.
func (c *Controller) Path() string { return c.path }

// run runs the control loop until the daemon stops, or until a retired pool has no instances left.
func (c *Controller) run(ctx context.Context) {
	defer c.closeFirst()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.gone:
		case <-c.m.Stopping: // commands of the pool must not delay it
		case <-ctx.Done():
		}
		cancel()
	}()
	c.boot(ctx)
	answers := make(chan answer, 1)
	interval := c.m.Fleet.Interval()
	due, tick, deadline := true, time.NewTimer(interval), time.NewTimer(0)
	defer tick.Stop()
	defer deadline.Stop()
	for ctx.Err() == nil {
		due = due && !c.check(ctx, answers)
		if next := c.reconcile(); next.IsZero() {
			deadline.Stop()
		} else {
			deadline.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
		case <-c.wake:
			if now := c.m.Fleet.Interval(); now != interval {
				interval = now
				tick.Reset(interval)
			}
		case <-deadline.C:
		case <-c.checkNow:
			due = true
		case <-tick.C:
			due = true
			tick.Reset(interval)
		case a := <-answers:
			c.answered(a)
		}
	}
}

// boot runs on_boot, before the first instance is added.
func (c *Controller) boot(ctx context.Context) {
	c.mu.Lock()
	template, more := c.template, c.environ()
	c.mu.Unlock()
	if template.Pool.OnBoot.Exists() {
		c.m.Fleet.Boot(ctx, c.path, template, more)
	}
	c.mu.Lock()
	c.booted = true
	c.mu.Unlock()
}

// reconcile plans the next steps and begins them. It returns when to plan again if nothing happens
// before; zero means never. It plans nothing while the instances cannot be observed.
func (c *Controller) reconcile() (next time.Time) {
	now := time.Now()
	seen, known := c.observe()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !known || !c.booted {
		return time.Time{}
	}
	steps, next := Plan(now, c.template.Instances(c.updateSize()), c.members(seen))
	c.fresh = false
	changed := false
	for _, s := range steps {
		path := c.path + "/" + s.Name
		switch s.Verb {
		case Add:
			c.names = append(c.names, s.Name)
			c.adding[s.Name] = true
			changed = true
		case Remove:
			c.m.Drains.DecideSurplus(path, s.Why)
			c.names = slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return name == s.Name })
			c.removing[s.Name] = true
			changed = true
		case BeginDrain:
			timeout, why := c.template.Pool.DrainTimeout, c.surplusReason()
			if until := now.Add(timeout); next.IsZero() || until.Before(next) {
				next = until
			}
			incarnation := seen[s.Name].Incarnation
			c.background(func(context.Context) { c.m.Drains.BeginSurplus(path, incarnation, why, timeout) })
		case CancelDrain:
			c.background(func(context.Context) { c.m.Drains.CancelSurplus(path) })
		}
	}
	over := c.retired && c.applying == 0 && len(c.names)+len(c.removing) == 0
	if changed || over {
		c.apply()
	} else if c.asked && c.applying == 0 {
		c.closeFirst()
	}
	return next
}

// background runs a function in the background, and wakes the control loop afterwards.
func (c *Controller) background(f func(context.Context)) {
	c.m.Go(func(ctx context.Context) {
		defer signal(c.wake)
		f(ctx)
	})
}

// apply makes the fleet match names, in the background. Needs mu.
func (c *Controller) apply() {
	c.applying++
	c.background(func(ctx context.Context) {
		defer func() {
			c.mu.Lock()
			c.applying--
			c.mu.Unlock()
		}()
		for {
			err := c.m.Fleet.Apply(ctx, c)
			if err == nil {
				return
			}
			c.m.Logger.Warn("cannot change a pool", "path", c.path, "error", err)
			select {
			case <-time.After(retryDelay):
			case <-ctx.Done():
				return
			}
		}
	})
}

// Lay makes Layout return the instances that the fleet should have. undo reverts that.
func (c *Controller) Lay() (undo func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.laid
	c.laid = c.template.Sorted(c.names)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.laid = before
	}
}

// laidOut returns the instances that the fleet has, and the template of the pool. The template is
// nil if the pool has no instances and wants none.
func (c *Controller) laidOut() (instances []string, template *spec.Agent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.laid)+len(c.names)+len(c.removing) > 0 {
		template = c.template
	}
	return c.laid, template
}

// Listed records that the supervisors know the instances of the last Lay.
func (c *Controller) Listed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.laid {
		delete(c.adding, name)
	}
}

// Removed records that an instance has been stopped and removed.
func (c *Controller) Removed(name string) {
	c.mu.Lock()
	delete(c.removing, name)
	c.mu.Unlock()
	signal(c.wake)
}
