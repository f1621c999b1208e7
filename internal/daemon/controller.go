// Package daemon runs a project: it holds the project's lock, connects the
// features, the reconciler and the tree of supervisors, and serves the API.
package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/access"
	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/outcome/claim"
	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/reconcile/hash"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/sagehost"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task/service"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options are what a Controller is made of.
type Options struct {
	Tree     *spec.Tree
	Store    store.Store
	Runtimes []runtime.Runtime // of different kinds, all in which something may run
	Logger   *slog.Logger
	Version  string
	Config   fleet.Config
	// Load reads the files of the project again; nil if there are none.
	Load   func() reconcile.Loaded
	Jobs   *job.Runner // for the runs of orders; nil: none are fired
	Socket string      // where agents reach the controller; they are told if it is not empty
	// Admit returns where agents that run as another user do; nil: nowhere.
	Admit func(uid uint32) (socket string, err error)
	// Once is one life of the tree: limits, stops and the numbers of
	// incarnations start over instead of from the store, and it ends by
	// itself when nothing runs or will run again. What lives is taken over all the same.
	Once bool
	// Work is the directory in which runs of Aidefiles find what they are told;
	// they are told nothing if it is empty.
	Work string
	// OnEvent is told what the supervisors do, from one goroutine; it must not be slow.
	OnEvent func(supervisor.Event)
	// programs are those that agents of the tree are parts of; nil if there are none.
	programs *sagehost.Programs
	// Output is told what the hooks of agents write, if it is not nil.
	Output func(path string, incarnation uint64, line proc.Line)

	check func(context.Context, pool.Check) (int, error) // runs the checks of pools; they are run as processes if nil
}

// Controller keeps one project's fleet running: a tree of supervisors whose
// leaves live in a runtime, so that they outlive it, and whose state is in a
// store, so that the next controller goes on where this one was.
type Controller struct {
	opts     Options
	host     string
	started  time.Time
	root     *supervisor.Supervisor // once launched is closed
	launched chan struct{}
	log      *event.Log
	journal  *journal.Journal
	tree     *control.Tree
	control  *control.Manager
	access   *access.Access
	before   uint64 // the last event of earlier daemons

	loop       *reconcile.Loop
	orphans    *reconcile.Orphans
	reloader   *reconcile.Reloader
	observer   *reconcile.Observer
	applier    *reconcile.Applier
	removals   reconcile.Removals
	hashes     *hash.Tracker
	status     *status.Model // once the features are open
	stopper    *agent.Stopper
	agents     *agent.Manager
	restarts   *agent.Restarts
	health     *health.Monitor
	background *background
	pools      *pool.Manager
	patrol     pool.Patroller
	drains     *drain.Manager
	beliefs    *belief.Service
	claims     *claim.Service
	output     *output.Service
	mail       *mail.Service
	questions  *question.Service
	pauses     pauseQuestions
	triggers   *trigger.Manager
	work       *service.Service
	orders     *dispatch.Dispatcher

	down     chan struct{} // closed when somebody has asked for the end
	downOnce sync.Once
	ended    chan struct{} // closed when everything is written
}

// Open finds out what runs, reports what happened meanwhile, and starts the
// tree: what lives is taken over, what ended is dealt with as if it ended
// now, what is no longer wanted is stopped. It does not wait for the agents to be ready.
func Open(ctx context.Context, o Options) (*Controller, error) {
	c, err := newController(o)
	if err != nil {
		return nil, err
	}
	if err = c.fleet().Check(c.agents.Runtimes()); err == nil {
		err = c.open(ctx)
	}
	if err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		return nil, errors.Join(err, c.log.Close(closing))
	}
	return c, nil
}

// newController makes a controller that has looked at nothing yet.
func newController(o Options) (*Controller, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	maxAge, maxBytes := o.Tree.Retention.Bounds()
	log, err := event.Open(event.Config{
		Store: o.Store, Epoch: epochOf(o.Store), Logger: o.Logger, MaxAge: maxAge, MaxBytes: maxBytes,
	})
	if err != nil {
		return nil, err
	}
	c := &Controller{
		opts: o, host: host, started: time.Now(), log: log,
		background: newBackground(),
		launched:   make(chan struct{}),
		down:       make(chan struct{}), ended: make(chan struct{}),
	}
	c.claims = claim.New(claim.Options{Store: o.Store, Log: log, Logger: o.Logger})
	c.tree = newTree(c)
	c.applier = newApplier(c, fleet.New(o.Tree, o.Config))
	c.loop = newLoop(c)
	c.health = newHealth(c)
	c.hashes = hash.New(hash.Options{
		Store: o.Store, Logger: o.Logger, Go: c.background.run, Changed: c.loop.Enqueue,
	})
	c.triggers = newTriggers(c)
	c.journal = newJournal(c)
	c.drains = newDrains(c)
	c.pools = newPools(c)
	c.pauses = pauseQuestions{c: c, look: make(chan struct{}, 1)}
	c.stopper = newStopper(c)
	c.agents = newAgents(c)
	c.output = output.New(output.Options{
		Tree: directory{c}, Agents: c.agents, Ended: c.ended,
		Typing: func(path string) func() { return c.health.BeginTyping(path) },
	})
	c.restarts = newRestarts(c)
	c.orphans = newOrphans(c)
	c.reloader = newReloader(c)
	c.patrol = pool.Patroller{Pools: c.pools, Reconciler: reconciler{c.loop, c}}
	c.observer = newObserver(c)
	c.access = newAccess(c)
	c.control = newControl(c)
	return c, nil
}

const (
	closeTime = 5 * time.Second // for the last events to be written
	leftTime  = time.Minute     // for starts that have been given up to leave nothing behind
)

func (c *Controller) open(ctx context.Context) (err error) {
	if _, c.before, err = c.log.Last(ctx, 0, nil); err != nil {
		return err
	}
	if err := c.openBeliefs(ctx); err != nil {
		return err
	}
	if err := c.openFeatures(ctx); err != nil {
		return err
	}
	for path := range c.fleet().Agents {
		c.questions.Forward(path) // of questions that ended and whose agents were not told
	}
	defer func() {
		if err != nil {
			c.questions.Close()
		}
	}()
	if err := c.openWork(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.work.Close()
		}
	}()
	if err := c.control.Restore(ctx); err != nil {
		return err
	}
	if err := c.triggers.RestoreIssues(ctx); err != nil {
		return err
	}
	c.status = newStatus(c)
	saved, err := c.restore(ctx)
	if err != nil {
		return err
	}
	f := c.fleet() // with the instances of its pools
	if err := f.Specify(c.building(nil, triggerAgents{c}.saved(f, saved))); err != nil {
		return err
	}
	adopted := len(c.agents.Adoptions())
	c.log.Append(event.Event{
		Type: event.ControllerStarted, Actor: "controller",
		Message: fmt.Sprintf("controller %d started, %d agents taken over", os.Getpid(), adopted),
	}.With(map[string]any{"pid": os.Getpid(), "adopted": adopted, "version": c.opts.Version}), agent.MarkRunning())
	root := *f.Root
	root.OnEvent = c.event
	c.root, err = supervisor.Launch(context.WithoutCancel(ctx), root)
	close(c.launched)
	if err != nil {
		return err
	}
	if err := c.openOrders(ctx); err != nil {
		c.root.Kill()
		c.root.Wait()
		return err
	}
	c.drains.Resume()
	c.work.Run(c.agents.IsPending)
	c.background.run(c.loop.Run)
	c.background.run(func(ctx context.Context) { c.pauses.run(ctx) })
	c.pools.Start()
	c.triggers.Apply()
	go c.wait()
	return nil
}

// Before is the number of the last event that is older than this controller.
func (c *Controller) Before() uint64 { return c.before }

// Started waits until every agent has been started once, or its start has
// failed, and the instances that the first checks of the pools have asked for.
func (c *Controller) Started(ctx context.Context) error {
	if err := c.root.Started(ctx); err != nil {
		return err
	}
	c.loop.Enqueue() // it may not have seen yet whose turn it is
	if err := c.loop.AwaitIdle(ctx); err != nil {
		return err
	}
	if err := c.pools.AwaitFirst(ctx); err != nil {
		return err
	}
	return c.loop.AwaitIdle(ctx)
}

// Ended is closed when the tree has ended, by Stop or by its own limit, and
// everything has been written.
func (c *Controller) Ended() <-chan struct{} { return c.ended }

// Err is why the tree has ended, nil if it was stopped. Valid after Ended.
func (c *Controller) Err() error {
	if e := c.root.Exit(); !e.Clean() {
		return e.Err
	}
	return nil
}

// Stop ends the controller: all agents are stopped as package shutdown says, or
// go on without it if keep. It returns at once; the second call kills.
func (c *Controller) Stop(keep bool) {
	first := false
	c.downOnce.Do(func() {
		first = true
		if keep {
			c.agents.Detach()
		}
		close(c.down)
		go c.closeOrders() // beside the agents
	})
	switch {
	case first && keep:
		c.root.Stop()
	case first:
		go c.stopper.StopAll(c.root)
	case !c.agents.IsDetaching():
		c.stopper.Hurry()
		c.root.Kill()
	}
}

// wait sees the tree end.
func (c *Controller) wait() {
	err := c.root.Wait()
	c.closeOrders()
	if !c.agents.IsDetaching() {
		c.stopper.AwaitStarts(leftTime)
	}
	c.background.end()
	if !c.agents.IsDetaching() {
		c.agents.StopUnadopted()
	}
	entry := event.Event{Type: event.ControllerStopped, Actor: "controller", Message: "controller stopped"}
	if err != nil {
		entry.Message += ": " + err.Error()
	}
	var ops []store.Op
	if !c.agents.IsDetaching() {
		ops = append(ops, agent.MarkOrderly(c.opts.Once))
	}
	c.questions.Close()
	c.work.Close()
	c.log.Append(entry, ops...)
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := c.log.Close(ctx); err != nil {
		c.opts.Logger.Error("the last events were not written", "error", err)
	}
	close(c.ended)
}

// epochOf names the history of a store. One in memory begins with each daemon.
func epochOf(s store.Store) func() string {
	if s, ok := s.(interface{ ID() string }); ok {
		return s.ID
	}
	id := rand.Text()
	return func() string { return id }
}
