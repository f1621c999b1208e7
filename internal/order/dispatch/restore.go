package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
)

// syncTimeout bounds the wait until earlier events are stored.
const syncTimeout = 2 * time.Second

// restore creates the engine from the store, and returns the runs that have not ended.
func (d *Dispatcher) restore(ctx context.Context) (open []order.Run, err error) {
	records, _, err := d.o.Store.Snapshot(ctx, statePrefix)
	if err != nil {
		return nil, fmt.Errorf("reading the states of orders: %w", err)
	}
	d.orders, d.states = make(map[string]*spec.Order), make(map[string]order.State)
	for _, o := range d.o.Orders {
		d.orders[o.Name] = o
	}
	now := d.o.Clock()
	var stale []store.Op
	for _, r := range records {
		var s order.State
		if err := json.Unmarshal(r.Value, &s); err != nil || stateKey(s.Name) != r.Key {
			d.o.Logger.Warn("cannot read the state of an order; it starts without one", "key", r.Key, "error", err)
			continue
		}
		if d.orders[s.Name] == nil && now.Since(s.Fired) > forgetAfter && now.Wall.Sub(s.Created) > forgetAfter &&
			len(stale) < store.MaxOps {
			stale = append(stale, store.Op{Kind: store.Delete, Key: r.Key})
			continue
		}
		if d.orders[s.Name] == nil && !s.Off && len(stale) < store.MaxOps {
			s.Off = true
			stale = append(stale, stateOp(s))
		}
		d.states[s.Name] = s
	}
	if len(stale) > 0 {
		d.o.Store.Apply(ctx, store.Fence{}, nil, stale) // a failure is repaired by the next dispatcher
	}
	// New orders wait for later events only. If earlier ones cannot be stored, as the disk
	// is full, the fleet does not wait for that.
	syncing, enough := context.WithTimeout(ctx, syncTimeout)
	d.o.Log.Sync(syncing)
	enough()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	_, head, err := d.o.Log.Last(ctx, 1, func(event.Event) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("finding the end of the event log: %w", err)
	}
	past := d.history.all()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine = order.New(d.o.Orders, d.states, head, now)
	d.engine.Held = d.o.Held
	for _, r := range past {
		if !r.Status.Over() {
			open = append(open, r)
			d.engine.Began(r.Order)
		}
	}
	for _, r := range past {
		d.engine.Led(r.Order, ID(r.Number), r.Status.Over(), r.Causes)
	}
	return open, nil
}

// saveNew stores the states of new orders: an event that is recorded after Open has
// returned counts, even if the daemon is killed at once. A failure is repaired later.
func (d *Dispatcher) saveNew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	for states := range slices.Chunk(d.engine.Unsaved(), store.MaxOps) {
		_, err := d.o.Store.Apply(ctx, store.Fence{}, nil, stateOps(states))
		for _, s := range states {
			if err != nil {
				d.engine.Refused(order.Action{Do: order.Keep, Order: d.orders[s.Name]}, d.o.Clock())
				continue
			}
			d.states[s.Name] = s
		}
	}
}

// tidy removes the jobs of runs that have ended, and runs of orders that were removed long
// ago.
func (d *Dispatcher) tidy() {
	d.tidyRuns()
	all, err := d.o.Jobs.List(d.ctx)
	if err != nil {
		return // the next dispatcher does it
	}
	for id := range all {
		if n, ok := numberOf(id); ok && !d.isActive(n) && d.history.isOver(n) {
			d.o.Jobs.Forget(d.ctx, id)
		}
	}
}

// tidyRuns removes the runs of orders that were removed long ago.
func (d *Dispatcher) tidyRuns() {
	var old []uint64
	now := d.o.Clock().Wall
	for _, r := range d.history.all() {
		if r.Status.Over() && now.Sub(r.FiredAt) > forgetAfter && d.inForce(r.Order) == nil && !d.isActive(r.Number) {
			old = append(old, r.Number)
		}
	}
	for some := range slices.Chunk(old, batchSize) {
		if d.ctx.Err() != nil {
			return
		}
		d.history.record(d.ctx, func(c *ledger.Change[order.Run]) { d.history.erase(c, some) })
	}
}
