// Package controller keeps the fleet of a project running: it connects the features, the reconciler and the tree of
// supervisors.
package controller

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/access"
	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/calls"
	"github.com/coppice-dev/coppice/internal/calls/far"
	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/filewatch"
	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/metrics"
	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/notify/deadman"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/outcome/claim"
	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/pipeline/workers"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/reconcile/hash"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/service"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/internal/traces"
	"github.com/coppice-dev/coppice/internal/usage"
	"github.com/coppice-dev/coppice/internal/waitlist"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options are the parts and settings of a Controller.
type Options struct {
	Tree     *spec.Tree
	Store    store.Store
	Runtimes []runtime.Runtime // of different kinds
	Logger   *slog.Logger
	Version  string
	Config   fleet.Config
	// Load reads the files of the project again; nil if there are none.
	Load   func() reconcile.Loaded
	Jobs   *job.Runner // for the runs of orders; nil: none are fired
	Socket string      // the address of the API that agents receive; empty if there is none
	// Admit returns the socket for agents that run as another user; nil if there is none.
	Admit func(uid uint32) (socket string, err error)
	// Once runs the tree a single time: limits, stops and incarnation numbers start
	// from scratch instead of from the store, and the tree ends when no agent runs or
	// will run again. Agents that are running already are adopted nevertheless.
	Once bool
	// Work is the directory of the files of workers of pipelines; empty if there is none.
	Work string
	// Sandbox says that the project is tried out: no port of the project is taken, and no message is sent to people.
	Sandbox bool
	// Lock is the lock file of the project, and Restored tells that the socket was deleted and is there again. Run
	// repairs what was removed.
	Lock interface {
		Repair() (restored bool, err error)
	}
	Restored <-chan struct{}
	// Watch are the files that Run reads again when they change, and at once when something comes from Hurry.
	Watch filewatch.Set
	Hurry <-chan struct{}
	// OnEvent receives the events of the supervisors, from one goroutine; it must not be slow.
	OnEvent func(supervisor.Event)
	// Node is this machine in a fleet; nil if there is no fleet.
	Node *node.Node
	// Places are where the agents of the fleet run; nil if there is no fleet.
	Places *placing.Places
	// Far follows calls of command lines on another node; nil if there is no fleet.
	Far func(node string) *far.Client
	// Transport reaches what another node answers to nodes; nil if there is no fleet.
	Transport func(node string) http.RoundTripper
	// DiffersFrom is the node of the last controller, if that had other files of the project.
	DiffersFrom string
	// Lost gives the names of nodes of the fleet that are lost; nil if there is no fleet.
	Lost <-chan string
	// Output receives the lines that hooks of agents write; it may be nil.
	Output func(path string, incarnation uint64, line proc.Line)

	check func(context.Context, pool.Check) (int, error) // runs the checks of pools; they are run as processes if nil
}

// Controller keeps the fleet of a project running. Its tree of supervisors has agents as
// leaves, which run in a runtime and outlive the Controller. The state of the tree is in a
// store, from which the next Controller continues.
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
	before   uint64       // the last event of earlier daemons
	last     *event.Event // that event; nil if there was none

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
	lasting    lastingQuestions
	triggers   *trigger.Manager
	workers    *workers.Workers
	quotas     *quota.Manager
	calls      *calls.Manager
	costs      *cost.Ledger
	budgets    *budget.Manager
	work       *service.Service
	orders     *dispatch.Dispatcher
	checks     *gate.Runner     // nil without Jobs
	metrics    *metrics.Metrics // nil if there are none
	notify     *notify.Manager
	usage      *usage.Service
	homeless   waitlist.List // agents that no node takes
	deadman    *deadman.Pinger
	traces     *traces.Manager // nil in a sandbox

	fenced   atomic.Bool   // another controller may write to the store
	down     chan struct{} // closed by Stop
	downOnce sync.Once
	asked    atomic.Bool   // a person has asked for the end
	ended    chan struct{} // closed when everything is written
}

// Open observes the slots, logs what happened while no daemon ran, and starts the tree. It adopts
// running agents, handles exits as if they happened now, and stops agents that are no longer
// declared. It does not wait for the agents to be ready.
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

// maxFleetEvents bounds the events of a fleet in bytes: etcd keeps all that it has in memory, and at most 2 GB unless
// it is told otherwise.
const maxFleetEvents = 64 << 20

// retention returns for how long events are kept, and how many bytes of them at most.
func (o *Options) retention(t *spec.Tree) (maxAge time.Duration, maxBytes int64) {
	maxAge, maxBytes = t.Retention.Bounds()
	if o.Node != nil {
		maxBytes = min(maxBytes, maxFleetEvents)
	}
	return maxAge, maxBytes
}

// newController connects the parts of a controller. It starts nothing.
func newController(o Options) (*Controller, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	host, err := os.Hostname()
	switch {
	case o.Node != nil:
		host = o.Node.Name()
	case err != nil:
		host = "localhost"
	}
	maxAge, maxBytes := o.retention(o.Tree)
	epoch := epochOf(o.Store)
	log, err := event.Open(event.Config{
		Store: o.Store, Epoch: epoch, Logger: o.Logger, MaxAge: maxAge, MaxBytes: maxBytes,
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
	c.claims = claim.New(claim.Options{
		Store: o.Store, Log: log, Logger: o.Logger,
		End: func(ctx context.Context, who token.Caller, id string, o outcome.Outcome) (*task.Task, error) {
			return c.work.Report(ctx, who, id, o)
		},
	})
	if o.Jobs != nil {
		c.checks = gate.NewRunner(o.Jobs.Dir(), o.Logger)
	}
	c.metrics = newMetrics(c)
	c.tree = newTree(c)
	c.traces = newTraces(c, epoch)
	c.applier = newApplier(c, fleet.New(o.Tree, o.Config))
	c.loop = newLoop(c)
	c.health = newHealth(c)
	c.hashes = hash.New(hash.Options{
		Store: o.Store, Logger: o.Logger, Go: c.background.run, Changed: c.loop.Enqueue,
		Declared: func(path string, a *spec.Agent) spec.Hash { return c.fleet().Declared(path, a) },
	})
	c.costs = newCosts(c)
	c.quotas = newQuotas(c)
	c.budgets = newBudgets(c)
	c.calls = newCalls(c)
	c.triggers = newTriggers(c)
	c.workers = newWorkers(c)
	c.journal = newJournal(c)
	c.drains = newDrains(c)
	c.pools = newPools(c)
	c.lasting = lastingQuestions{c: c, look: make(chan struct{}, 1)}
	c.stopper = newStopper(c)
	c.agents = newAgents(c)
	c.output = output.New(output.Options{
		Tree: directory{c}, Agents: c.agents, Node: machines{c}.name(), Ended: c.ended,
		Typing: func(path string) func() { return c.health.BeginTyping(path) },
	})
	c.restarts = newRestarts(c)
	c.orphans = newOrphans(c)
	c.reloader = newReloader(c)
	c.patrol = pool.Patroller{Pools: c.pools, Reconciler: reconciler{c.loop, c}}
	c.observer = newObserver(c)
	c.access = newAccess(c)
	c.control = newControl(c)
	c.notify, c.deadman, c.usage = newNotify(c), newDeadman(c), newUsage(c)
	machines{c}.place()
	return c, nil
}

const (
	closeTime = 5 * time.Second // for the last events to be written
	leftTime  = time.Minute     // for cancelled starts to clean up
)

func (c *Controller) open(ctx context.Context) (err error) {
	last, before, err := c.log.Last(ctx, 1, func(event.Event) bool { return true })
	if err != nil {
		return err
	}
	if c.before = before; len(last) > 0 {
		c.last = &last[0]
	}
	if err := c.traces.Open(ctx, c.before); err != nil {
		return err
	}
	if err := c.openBeliefs(ctx); err != nil {
		return err
	}
	if err := c.openFeatures(ctx); err != nil {
		return err
	}
	for path := range c.fleet().Agents {
		c.questions.Forward(path) // answers that were not delivered
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
	if err := c.triggers.Restore(ctx); err != nil {
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
	c.log.Append(c.startEvent(adopted), agent.MarkRunning())
	root := *f.Root
	root.OnEvent = c.event
	c.root, err = supervisor.Launch(context.WithoutCancel(ctx), root)
	close(c.launched)
	if err != nil {
		return err
	}
	if c.checks != nil {
		c.background.run(c.checks.Sweep)
	}
	if err := c.openOrders(ctx); err != nil {
		c.root.Kill()
		c.root.Wait()
		return err
	}
	c.drains.Resume()
	c.work.Run(c.agents.IsPending)
	c.background.run(c.loop.Run)
	c.background.run(c.costs.Run)
	c.background.run(machines{c}.followLost)
	c.background.run(machines{c}.follow)
	c.background.run(func(ctx context.Context) { c.metrics.Run(ctx, c.before) })
	c.background.run(c.traces.Run)
	c.background.run(c.budgets.Run)
	c.background.run(func(ctx context.Context) { c.lasting.run(ctx) })
	c.pools.Start()
	c.quotas.Apply()
	c.budgets.Apply()
	c.triggers.Apply()
	go c.wait()
	return nil
}

// startEvent says that the controller has started.
func (c *Controller) startEvent(adopted int) event.Event {
	e := event.Event{
		Type: event.ControllerStarted, Actor: "controller",
		Message: fmt.Sprintf("controller %d started, agents taken over: %d", os.Getpid(), adopted),
	}
	data := map[string]any{"pid": os.Getpid(), "adopted": adopted, "version": c.opts.Version}
	if from := c.opts.DiffersFrom; from != "" {
		e.Message += fmt.Sprintf("; the files of the project here differ from those on node %s, where the last "+
			"controller was, and count now", from)
		data["files_differ_from"] = from
	}
	return e.With(data)
}

// epochOf returns the name of the history of a store. That of a memory store begins with each daemon.
func epochOf(s store.Store) func() string {
	if s, ok := s.(interface{ ID() string }); ok {
		return s.ID
	}
	id := rand.Text()
	return func() string { return id }
}
