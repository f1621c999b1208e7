// Package dispatch carries out what an engine of orders decides: it writes down
// each run before anything of it is started, runs commands as jobs, which
// outlive the daemon, makes tasks, tries again, and keeps the history.
//
// Whatever the daemon is killed in the middle of, its successor goes through
// the runs that have not ended: one that was started is found where it runs, or
// with its end; one that was not is started; one of which nothing is left is
// marked as interrupted.
package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
)

// Options are what a Dispatcher is made of. Store, Log and Jobs are needed.
type Options struct {
	Store  store.Store
	Log    *event.Log
	Jobs   *job.Runner
	Orders []*spec.Order
	// Environ makes the environment of a command from what was declared.
	Environ func(declared map[string]string) []string
	// Task makes a task, once for each key. Nil: there are none.
	Task func(ctx context.Context, key string, t spec.OrderTask) (id string, err error)
	// Held says why an order must not fire for now; see order.Engine.
	Held func(*spec.Order) string
	// Paced is told when events fire an order at a slower pace from now on; it may be nil.
	Paced func()
	// Mark is an environment entry by which checks of this project are known from all others.
	Mark string
	// Clock is the time; that of the machine if nil.
	Clock func() order.Now
	// History is how many runs of an order are kept that have ended; 20 if 0.
	History int
	// Parallel is how many runs go on at the same time; 64 if 0.
	Parallel int
	Logger   *slog.Logger
}

// Keys in the store.
const (
	statePrefix  = "orders/state"
	runPrefix    = "orders/run"
	outputPrefix = "orders/output"
)

// Times, and bounds.
const (
	longestWait  = 30 * time.Second // so that a clock that was set is noticed
	progressFar  = 1000             // events that are counted again at most
	forgetAfter  = 90 * 24 * time.Hour
	writeTimeout = 10 * time.Second
	together     = 30 // decisions in one write
)

// Dispatcher fires orders.
type Dispatcher struct {
	o     Options
	ctx   context.Context
	end   context.CancelFunc
	wg    sync.WaitGroup
	wake  chan struct{} // holds a token when there is something to decide
	turns chan struct{} // of runs
	tries chan struct{} // of checks
	swept chan struct{} // closed when checks of the predecessor have ended
	// Each check has a number, by which all that it has started is found.
	checks  atomic.Uint64
	sweeper proc.Sweeper
	runs    *ledger.Ledger[order.Run]
	// writes is held from a decision until the states that follow from it are
	// written, so that no older state is written over a newer one.
	writes turn

	mu      sync.Mutex
	engine  *order.Engine
	orders  map[string]*spec.Order
	states  map[string]order.State // of those that are not in force, too
	byOrder map[string][]uint64    // numbers of runs, oldest first
	active  map[uint64]*drive
	gone    []order.State // of orders that are no longer in force, to be written
	moved   chan struct{} // closed and replaced when a run has changed
	closed  bool
	halting bool // all runs are to end
}

// turn is a lock that nobody has to wait for.
type turn chan struct{}

func (t turn) lock(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) unlock() { <-t }

// drive is a run that goes on here.
type drive struct {
	order    string
	cancel   context.CancelFunc
	starting bool     // its command is being started, and may run already
	job      *job.Job // of the attempt that goes on; nil between them
	stop     string   // why it is to end; empty if it is not
}

// Open takes over what the predecessor has left, and begins.
func Open(ctx context.Context, o Options) (*Dispatcher, error) {
	d, open, err := restore(ctx, o)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	for _, r := range open {
		d.begin(r, true)
	}
	d.mu.Unlock()
	d.wg.Go(d.tidy)
	d.establish(ctx)
	d.wg.Go(d.loop)
	d.wg.Go(d.follow)
	d.wg.Go(d.sweep)
	return d, nil
}

// Read shows what the predecessor has left, and fires nothing: only List, Show,
// Next, History and One may be called. Of the options it needs no Jobs.
func Read(ctx context.Context, o Options) (*Dispatcher, error) {
	d, _, err := restore(ctx, o)
	return d, err
}

// restore makes a Dispatcher of what is stored, and returns the runs that have not ended.
func restore(ctx context.Context, o Options) (*Dispatcher, []order.Run, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock
	}
	if o.History == 0 {
		o.History = 20
	}
	if o.Parallel == 0 {
		o.Parallel = 64
	}
	if o.Environ == nil {
		o.Environ = func(map[string]string) []string { return nil }
	}
	d := &Dispatcher{
		o: o, wake: make(chan struct{}, 1), turns: make(chan struct{}, o.Parallel),
		tries: make(chan struct{}, checksAtOnce), swept: make(chan struct{}),
		writes:  make(turn, 1),
		byOrder: make(map[string][]uint64), active: make(map[uint64]*drive), moved: make(chan struct{}),
	}
	d.ctx, d.end = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	d.runs, err = ledger.Open(ctx, ledger.Options[order.Run]{
		Store: o.Store, Prefix: runPrefix, Index: d.index, Logger: o.Logger,
		Check: func(n uint64, r *order.Run) error {
			if r.Order == "" || r.Status == "" {
				return errors.New("it has no order, or no status")
			}
			return nil
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the runs of orders: %w", err)
	}
	open, err := d.recall(ctx)
	return d, open, err
}

// Close lets go of everything. What runs is stopped, and recorded so, or goes
// on if keep.
func (d *Dispatcher) Close(ctx context.Context, keep bool) {
	d.mu.Lock()
	d.closed, d.halting = true, !keep
	if !keep {
		for _, run := range d.active {
			run.halt(stoppedRun)
		}
	}
	d.mu.Unlock()
	if d.writes.lock(ctx) == nil { // what was decided before goes on by now, or is halted
		d.writes.unlock()
	}
	for !keep {
		d.mu.Lock()
		n, moved := len(d.active), d.moved
		d.mu.Unlock()
		if n == 0 {
			break
		}
		select {
		case <-moved:
			continue
		case <-ctx.Done():
		}
		break
	}
	d.mu.Lock()
	progress := append(d.engine.Progress(0), d.gone...)
	d.mu.Unlock()
	d.end()
	d.wg.Wait()
	for i := 0; i < len(progress); i += together {
		var ops []store.Op
		for _, s := range progress[i:min(len(progress), i+together)] {
			ops = append(ops, stateOp(s))
		}
		d.o.Store.Apply(ctx, store.Fence{}, nil, ops)
	}
}

// Why a run is to end.
const (
	stoppedRun   = "it was stopped"
	removedOrder = "the order was removed from the file"
)

// halt ends a run; why is for one that has no command to stop at present. The mutex is held.
func (r *drive) halt(why string) {
	r.stop = why
	if r.job != nil {
		r.job.Stop()
	} else {
		r.cancel()
	}
}

// Poke has the orders looked at: what Options.Held says may have changed.
func (d *Dispatcher) Poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Replace makes other orders those in force. A run of an order that is there no
// more goes on to its end, and has no other attempt.
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
		d.gone = append(d.gone, s)
	}
	for _, run := range d.active {
		switch {
		case before[run.order] == nil:
			d.engine.Began(run.order)
		case d.orders[run.order] == nil && !run.starting && run.job == nil:
			run.halt(removedOrder)
		}
	}
	d.Poke()
}

// loop lets the engine decide when there is something to decide.
func (d *Dispatcher) loop() {
	progress := time.Now()
	for {
		if d.writes.lock(d.ctx) != nil {
			return
		}
		d.mu.Lock()
		now := d.o.Clock()
		var actions []order.Action
		wait := longestWait
		if !d.closed {
			actions = d.engine.Step(now)
			wait = d.engine.Wait(now, longestWait)
		}
		var states []order.State
		if time.Since(progress) > time.Minute {
			states, progress = d.engine.Progress(progressFar), time.Now()
		}
		for _, s := range d.gone {
			if d.orders[s.Name] == nil { // or what is newer is written anyway
				states = append(states, s)
			}
		}
		d.gone = nil
		d.mu.Unlock()
		d.perform(actions)
		for _, s := range states {
			d.keep(s)
		}
		d.writes.unlock()
		if len(actions) > 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-d.wake:
		case <-timer.C:
		case <-d.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// follow counts the events of the log.
func (d *Dispatcher) follow() {
	for d.ctx.Err() == nil {
		d.mu.Lock()
		after := d.engine.Seen()
		d.mu.Unlock()
		for e, err := range d.o.Log.Follow(d.ctx, after, event.Filter{}) {
			if err != nil {
				if d.ctx.Err() == nil {
					d.o.Logger.Warn("the event log cannot be read; orders wait for it", "error", err)
				}
				break
			}
			d.mu.Lock()
			d.engine.Event(e)
			due := d.engine.Wait(order.Now{}, longestWait) == 0
			d.mu.Unlock()
			if due {
				d.Poke()
			}
		}
		select {
		case <-time.After(time.Second):
		case <-d.ctx.Done():
		}
	}
}

func stateKey(name string) string { return statePrefix + "/" + name }

func stateOp(s order.State) store.Op {
	value, err := json.Marshal(s)
	if err != nil {
		value = []byte("{}")
	}
	return store.Op{Kind: store.Put, Key: stateKey(s.Name), Value: value}
}

// keep writes a state, some time.
func (d *Dispatcher) keep(s order.State) {
	ctx, cancel := context.WithTimeout(d.ctx, writeTimeout)
	defer cancel()
	d.o.Store.Apply(ctx, store.Fence{}, nil, []store.Op{stateOp(s)})
}
