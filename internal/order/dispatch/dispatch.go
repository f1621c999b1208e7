// Package dispatch fires orders. It records each run before it starts it, runs commands as
// jobs, which outlive the daemon, creates tasks, retries, and keeps the history of runs.
//
// If the daemon is killed at any point, its successor goes through the runs that have not
// ended. A run that was started is found again, running or with its result; one that was
// not is started; one of which nothing is left is recorded as interrupted.
package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

// Options configure a Dispatcher. Store and Log are needed.
type Options struct {
	Store  store.Store
	Log    *event.Log
	Jobs   *job.Runner  // runs commands; if nil, no orders are fired
	Checks *gate.Runner // runs the checks of gates; needed with Jobs
	Orders []*spec.Order
	// Environ returns the environment of a command with the declared variables.
	Environ func(declared map[string]string) []string
	// Span returns the environment of an attempt of a run with its span; that is env if it is nil.
	Span func(run string, attempt int, env []string) []string
	// Task creates a task, once for each key. If it is nil, runs that need it fail.
	Task func(ctx context.Context, key string, t spec.OrderTask) (id string, err error)
	// Held returns why an order must not fire now; see order.Engine.
	Held func(*spec.Order) string
	// Paced, unless nil, is called when events begin to fire an order at a slower pace.
	Paced func()
	// Clock returns the time; that of the machine if nil.
	Clock func() order.Now
	// History is the number of ended runs that are kept for each order; 20 if 0.
	History int
	Logger  *slog.Logger
}

// Keys in the store.
const (
	statePrefix  = "orders/state"
	runPrefix    = "orders/run"
	outputPrefix = "orders/output"
)

const (
	maxWait      = 30 * time.Second    // so that a change of the clock is noticed
	maxRecounted = 1000                // events that the next dispatcher counts again
	forgetAfter  = 90 * 24 * time.Hour // removed orders
	writeTimeout = 10 * time.Second
	batchSize    = 30 // decisions in one write
	maxParallel  = 64 // runs
)

// Dispatcher fires orders.
type Dispatcher struct {
	o       Options
	ctx     context.Context
	end     context.CancelFunc
	wg      sync.WaitGroup
	wake    chan struct{} // holds a token when there is something to decide
	closing sync.Once
	slots   chan struct{} // for concurrent runs
	history *history
	// writing is held from a decision until the states that follow from it are stored, so
	// that an older state never replaces a newer one.
	writing lock

	mu      sync.Mutex
	engine  *order.Engine
	orders  map[string]*spec.Order
	states  map[string]order.State // also of orders that are not in force
	active  map[uint64]*activeRun
	removed []order.State // of orders that are no longer in force, to be stored
	closed  bool
	halting bool // all runs are to end
}

// lock is a mutex whose Lock ends with a context.
type lock chan struct{}

func (t lock) lock(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t lock) unlock() { <-t }

// Open returns a Dispatcher that continues the runs of its predecessor and fires orders.
// Without Options.Jobs it only shows what the predecessor has left.
func Open(ctx context.Context, o Options) (*Dispatcher, error) {
	o.setDefaults()
	d := &Dispatcher{
		o: o, wake: make(chan struct{}, 1), slots: make(chan struct{}, maxParallel),
		writing: make(lock, 1), active: make(map[uint64]*activeRun),
	}
	d.ctx, d.end = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	if d.history, err = openHistory(ctx, o.Store, o.Logger); err != nil {
		return nil, fmt.Errorf("reading the runs of orders: %w", err)
	}
	open, err := d.restore(ctx)
	if err != nil {
		return nil, err
	}
	if o.Jobs == nil {
		return d, nil
	}
	d.mu.Lock()
	for _, r := range open {
		d.begin(r, true)
	}
	d.mu.Unlock()
	d.wg.Go(d.tidy)
	d.saveNew(ctx)
	d.wg.Go(d.loop)
	d.wg.Go(d.follow)
	return d, nil
}

func (o *Options) setDefaults() {
	o.History, o.Logger = cmp.Or(o.History, 20), cmp.Or(o.Logger, slog.Default())
	if o.Clock == nil {
		o.Clock = clock
	}
	if o.Environ == nil {
		o.Environ = func(map[string]string) []string { return nil }
	}
}

// Close stops the Dispatcher. Unless keep is set it stops all runs and waits for their
// ends; otherwise they go on for the next dispatcher. Later calls wait for the first.
func (d *Dispatcher) Close(ctx context.Context, keep bool) {
	d.closing.Do(func() { d.close(ctx, keep) })
}

func (d *Dispatcher) close(ctx context.Context, keep bool) {
	d.mu.Lock()
	d.closed, d.halting = true, !keep
	if !keep {
		for _, run := range d.active {
			run.halt(stoppedRun)
		}
	}
	d.mu.Unlock()
	if d.writing.lock(ctx) == nil { // earlier decisions are carried out by now, or halted
		d.writing.unlock()
	}
	if !keep {
		d.awaitRuns(ctx)
	}
	d.mu.Lock()
	progress := append(d.engine.Progress(0), d.removed...)
	d.mu.Unlock()
	d.end()
	d.wg.Wait()
	if d.o.Jobs == nil {
		return
	}
	for states := range slices.Chunk(progress, batchSize) {
		d.o.Store.Apply(ctx, store.Fence{}, nil, stateOps(states))
	}
}

// awaitRuns waits until no run is active, or ctx ends.
func (d *Dispatcher) awaitRuns(ctx context.Context) {
	for {
		changed := d.history.next()
		d.mu.Lock()
		n := len(d.active)
		d.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// poke makes the Dispatcher look at its orders: the result of Options.Held may have changed.
func (d *Dispatcher) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Replace replaces the orders in force. A run of an order that was removed goes on, but is
// not tried again.
func (d *Dispatcher) Replace(all []*spec.Order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.orders
	d.orders = make(map[string]*spec.Order, len(all))
	for _, o := range all {
		d.orders[o.Name] = o
	}
	for _, s := range d.engine.Replace(all, d.states, d.engine.Seen(), d.o.Clock()) {
		d.states[s.Name] = s
		d.removed = append(d.removed, s)
	}
	for _, run := range d.active {
		switch {
		case before[run.order] == nil:
			d.engine.Began(run.order)
		case d.orders[run.order] == nil && !run.starting && run.job == nil:
			run.halt(removedOrder)
		}
	}
	d.poke()
}
