package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/farewell"
	"github.com/coppice-dev/coppice/internal/patrol"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// leavetaking is one farewell while it is carried out: all agents of a part of
// the tree are asked to end when package farewell says so. Their supervisors are
// told to stop at the same time, and nothing is started there meanwhile.
type leavetaking struct {
	c    *Controller
	gate *gate
	plan *farewell.Plan
	news chan gone
	over chan struct{} // closed when nobody reads news any more

	mu      sync.Mutex
	bound   time.Duration
	present map[string]*process
	killed  map[string]bool
}

// gone is the news that a start was given up, or that an agent has ended.
type gone struct{ path string }

// allowance is how long an agent may take to end once it was asked: its own
// grace, or shutdown_timeout if it states none, and what it is to do before.
// Zero: it is not asked.
func (c *Controller) allowance(path string) time.Duration {
	a := c.fleetOf(path).agents[path] // nil for an instance that its pool does not want any more
	own := allowanceOf(c.fleet().tree.Patrol, a)
	if own > 0 && a != nil && a.Hooks.Resting.Exists() {
		own += a.Hooks.Resting.Timeout
	}
	return own
}

// allowanceOf is the part of an allowance that is for the agent itself, which may be nil.
func allowanceOf(p spec.Patrol, a *spec.Agent) time.Duration {
	own := p.ShutdownTimeout
	if a == nil {
		return own
	}
	if _, signal, _ := spec.ParseSignal(a.Shutdown.Signal); signal == syscall.SIGKILL || own == 0 {
		return 0
	}
	if a.Shutdown.Grace != supervisor.DefaultShutdown {
		own = a.Shutdown.Grace
	}
	return own
}

// fleetOf is the fleet that a path belongs to: the one in force, or the last one
// that had it.
func (c *Controller) fleetOf(path string) *fleet {
	f := c.fleet()
	if f.has(path) {
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.departed[path], f)
}

// boundSlack is how much longer supervisors wait than a farewell can take.
const boundSlack = 5 * time.Second

// takeLeave begins to stop all agents of a part of the tree, which is closed
// from now on. Their supervisors have to be told to stop, too.
func (c *Controller) takeLeave(path string) *leavetaking {
	p := &leavetaking{
		c: c, news: make(chan gone), over: make(chan struct{}),
		present: make(map[string]*process), killed: make(map[string]bool),
	}
	p.mu.Lock() // who arrives waits
	defer p.mu.Unlock()
	gate, living, coming := c.arrivals.close(path, p.arrived)
	allowed := make(map[string]time.Duration)
	for at := range living {
		allowed[at] = c.allowance(at)
	}
	for _, way := range coming {
		allowed[way.path] = c.allowance(way.path)
	}
	p.gate, p.present = gate, living
	p.plan = farewell.New(c.fleetOf(path).tree.Order(), allowed, time.Now())
	p.bound = p.plan.Bound() + boundSlack
	for at, agent := range living {
		agent.heed(p.bound)
		p.watch(at, agent.gone)
	}
	for _, way := range coming {
		p.watch(way.path, way.over)
	}
	return p
}

// watch waits for news of an agent.
func (p *leavetaking) watch(path string, done <-chan struct{}) {
	go func() {
		select {
		case <-done:
		case <-p.over:
			return
		}
		select {
		case p.news <- gone{path}:
		case <-p.over:
		}
	}()
}

// end lets in again who waits.
func (p *leavetaking) end() {
	p.c.arrivals.reopen(p.gate)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, agent := range p.present {
		agent.release() // whose supervisor has not asked for it
	}
}

// arrived takes note of an agent whose start was finished before it could be
// given up.
func (p *leavetaking) arrived(path string, agent *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.present[path] = agent
	agent.heed(p.bound)
	if p.killed[path] {
		agent.depart(0)
	} else {
		agent.depart(p.c.allowance(path))
	}
}

func (p *leavetaking) at(path string) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.present[path]
}

// run carries out the plan, until nobody lives or the controller is in a hurry.
func (p *leavetaking) run() {
	defer close(p.over)
	plan := p.plan
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		step := plan.Step(time.Now())
		for _, path := range step.Ask {
			if agent := p.at(path); agent != nil {
				agent.depart(p.c.allowance(path))
			}
		}
		for _, path := range step.Kill {
			p.kill(path)
		}
		if plan.Over() {
			return
		}
		timer.Stop()
		if !step.Next.IsZero() {
			timer.Reset(time.Until(step.Next))
		}
		select {
		case n := <-p.news:
			p.hear(n)
			for more := true; more; { // all that has come meanwhile
				select {
				case n := <-p.news:
					p.hear(n)
				default:
					more = false
				}
			}
		case <-timer.C:
		case <-p.c.hurry:
			return
		case <-p.c.ended:
			return
		}
	}
}

// hear takes in that an agent has ended, or that a start is over: what came of
// that may live. An agent that has taken all its time was killed, by its shim.
func (p *leavetaking) hear(n gone) {
	agent := p.at(n.path)
	if agent != nil && !isClosed(agent.gone) {
		p.watch(n.path, agent.gone)
		return
	}
	if allowed := p.c.allowance(n.path); agent != nil && allowed > 0 {
		if waited := agent.overdue(allowed); waited > 0 {
			p.c.overdue(n.path, agent, waited)
		}
	}
	p.plan.Ended(n.path)
}

// kill ends an agent whose time is over.
func (p *leavetaking) kill(path string) {
	p.mu.Lock()
	p.killed[path] = true
	agent := p.present[path]
	p.mu.Unlock()
	if agent == nil { // its start is being given up, which ends it, too
		return
	}
	if waited := agent.overdue(0); waited > 0 {
		p.c.overdue(path, agent, waited)
	}
	agent.depart(0)
}

// overdue tells that an agent did not end in time.
func (c *Controller) overdue(path string, agent *process, waited time.Duration) {
	o := agent.session.Observe()
	late := api.Overdue{Path: path, PID: o.PID, Waited: waited.Seconds()}
	if isClosed(c.down) {
		c.mu.Lock()
		c.late = append(c.late, late)
		c.mu.Unlock()
	}
	c.log.Append(event.Event{
		Type: event.AgentOverdue, Path: path, Incarnation: o.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s did not stop within %v, and is killed", late.Who(), waited.Round(100*time.Millisecond)),
	}.With(late))
}

// shutDown ends the whole tree, which stays closed.
func (c *Controller) shutDown() {
	p := c.takeLeave(c.root.Path())
	c.root.Stop()
	p.run()
	close(c.parted)
	if !c.arrivals.empty() { // some do not end at all, and have been waited for already
		c.root.Kill()
	}
}

// Farewell is part of api.Farewells.
func (c *Controller) Farewell(ctx context.Context) (api.Farewell, error) {
	select {
	case <-c.parted:
	case <-c.hurry:
	case <-c.ended:
	case <-ctx.Done():
		return api.Farewell{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.Farewell{Overdue: append([]api.Overdue{}, c.late...)}, nil
}

// suspendChild stops a child so that it stays down.
func (c *Controller) suspendChild(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo, why supervisor.Reason) error {
	path := sup.Path() + "/" + info.ID
	c.takeOverBelow(ctx, path)
	return c.ending(ctx, path, info, func(ctx context.Context) error { return sup.SuspendChild(ctx, info.ID, why) })
}

// takeOverTime is how long a stop waits until what was found running is taken over.
const takeOverTime = time.Second

// takeOverBelow has the agents at and below a path taken over that were found
// running: a supervisor can only stop what it has. One that is not ready by the end
// of takeOverTime is being started then, and is stopped with that.
func (c *Controller) takeOverBelow(ctx context.Context, path string) {
	c.mu.Lock()
	var agents []string
	above := make(map[string]bool) // supervisors of these, at and below path
	for at := range c.adopt {
		if !below(at, path) {
			continue
		}
		agents = append(agents, at)
		for up := parent(at); below(up, path); up = parent(up) {
			above[up] = true
		}
	}
	c.mu.Unlock()
	if len(agents) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, takeOverTime)
	defer cancel()
	ensure := func(path string) {
		if sup, id, err := c.locate(path); err == nil {
			sup.EnsureChild(ctx, id) // or somebody else has started it
		}
	}
	for _, at := range c.fleet().order { // parents first
		if above[at] {
			ensure(at)
		}
	}
	parallel(agents, ensure)
}

// ending stops a child as stop says; with a supervisor, all agents below it as a
// farewell. That goes on when ctx ends.
func (c *Controller) ending(ctx context.Context, path string, child supervisor.ChildInfo, stop func(context.Context) error) error {
	if child.Sub == nil || c.arrivals.closed(path) {
		return stop(ctx)
	}
	return c.leaving(ctx, path, stop)
}

// leaving stops a part of the tree, of which stop tells the supervisors. It goes
// on when ctx ends.
func (c *Controller) leaving(ctx context.Context, path string, stop func(context.Context) error) error {
	return finish(ctx, func(ctx context.Context) error {
		p := c.takeLeave(path)
		stopped := make(chan error, 1)
		go func() { stopped <- stop(ctx) }()
		p.run()
		err := <-stopped
		p.end()
		return err
	})
}

// partings says of what is not wanted any more what has to end before it: what
// has depended on it, and is not wanted any more, either. What is gone is forgotten.
func (c *Controller) partings(f *fleet, observed map[string]*patrol.Observed) map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.departed) == 0 {
		return nil
	}
	top := func(path string) string { // what is withdrawn with all in it
		for above, _, _ := cutLast(path); c.departed[above] != nil && !f.has(above); above, _, _ = cutLast(above) {
			path = above
		}
		return path
	}
	for path := range c.departed {
		if f.has(path) || observed[top(path)] == nil {
			delete(c.departed, path)
		}
	}
	before := make(map[string][]string)
	for path, was := range c.departed {
		needs := was.needs[path]
		if above, _, _ := cutLast(path); was.nodes[above] != nil && was.nodes[above].Strategy == supervisor.RestForOne && was.after[path] != "" {
			needs = append(slices.Clone(needs), was.after[path])
		}
		for _, need := range needs {
			if at, first := top(need), top(path); c.departed[need] != nil && at != first {
				before[at] = append(before[at], first)
			}
		}
	}
	return before
}

// stopUntaken stops what was found running and has not been taken over when
// everything ends: nobody else would.
func (c *Controller) stopUntaken() {
	c.mu.Lock()
	kinds := make(map[string][]string) // by path
	for path, a := range c.adopt {
		kinds[path] = append(kinds[path], a.kind)
	}
	for path, s := range c.strays {
		for _, o := range s.in {
			kinds[path] = append(kinds[path], o.kind)
		}
	}
	clear(c.adopt)
	clear(c.strays)
	c.mu.Unlock()
	var wg sync.WaitGroup
	for path, in := range kinds {
		for _, kind := range in {
			wg.Go(func() { c.stopUntakenAt(path, kind) })
		}
	}
	wg.Wait()
}

// stopUntakenAt stops what lives in a slot, asked if there is time for that.
func (c *Controller) stopUntakenAt(path, kind string) {
	within := c.allowance(path)
	ctx, cancel := context.WithTimeout(context.Background(), within+farewell.KillTime)
	defer cancel()
	s, err := adoptNow(ctx, c.places[kind], path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && isClosed(s.Done()) {
		return
	}
	if isClosed(c.hurry) {
		within = 0
	}
	if err == nil {
		asking, enough := context.WithCancel(ctx)
		defer enough()
		go func() {
			select {
			case <-c.hurry:
				enough()
			case <-asking.Done():
			}
		}()
		err = evict(asking, c.places[kind], path, within)
	}
	if err != nil {
		c.opts.Logger.Error("an agent that was found running cannot be stopped", "path", path, "error", err)
		return
	}
	o := s.Observe()
	c.log.Append(event.Event{
		Type: event.AgentStopped, Path: path, Incarnation: o.Incarnation, Actor: "controller",
		Message: path + " stopped: it was found running, and was not taken over any more",
	})
}
