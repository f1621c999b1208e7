package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
)

// index keeps the runs of each order together. Open's ledger calls it while nobody else looks.
func (d *Dispatcher) index(n uint64, before, now *order.Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case before == nil:
		all := append(d.byOrder[now.Order], n)
		for i := len(all) - 1; i > 0 && all[i-1] > all[i]; i-- {
			all[i-1], all[i] = all[i], all[i-1]
		}
		d.byOrder[now.Order] = all
	case now == nil:
		all := d.byOrder[before.Order]
		for i := range all {
			if all[i] == n {
				d.byOrder[before.Order] = append(all[:i:i], all[i+1:]...)
				break
			}
		}
	}
	close(d.moved)
	d.moved = make(chan struct{})
}

// syncTime is how long what happened before is waited for to be written.
const syncTime = 2 * time.Second

// recall makes the engine from what is stored, and returns the runs that have not ended.
func (d *Dispatcher) recall(ctx context.Context) (open []order.Run, err error) {
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
			d.o.Logger.Warn("the state of an order cannot be read: it begins anew", "key", r.Key, "error", err)
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
		d.o.Store.Apply(ctx, store.Fence{}, nil, stale) // or the next time
	}
	// What has happened so far is nothing that new orders wait for. Where it
	// cannot be written (a full disk), the fleet does not wait for that.
	syncing, enough := context.WithTimeout(ctx, syncTime)
	d.o.Log.Sync(syncing)
	enough()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	_, head, err := d.o.Log.Last(ctx, 1, func(event.Event) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("finding the end of the event log: %w", err)
	}
	var past []order.Run
	d.runs.View(func() {
		for _, all := range d.byOrder {
			for _, n := range all {
				r := d.runs.Get(n)
				if r == nil {
					continue
				}
				past = append(past, *r)
				if !r.Status.Over() {
					open = append(open, *r)
				}
			}
		}
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine = order.New(d.o.Orders, d.states, head, now)
	d.engine.Held = d.o.Held
	for _, r := range open {
		d.engine.Began(r.Order)
	}
	for _, r := range past {
		d.engine.Led(r.Order, ID(r.Number), r.Status.Over(), r.Causes)
	}
	return open, nil
}

// establish writes down what is new: what comes to pass once Open has returned counts,
// though the daemon be killed at once. What cannot be written is, later.
func (d *Dispatcher) establish(ctx context.Context) {
	ctx, enough := context.WithTimeout(ctx, syncTime)
	defer enough()
	d.mu.Lock()
	defer d.mu.Unlock()
	for all := d.engine.Unsaved(); len(all) > 0; {
		some := all[:min(len(all), store.MaxOps)]
		all = all[len(some):]
		var ops []store.Op
		for _, s := range some {
			ops = append(ops, stateOp(s))
		}
		_, err := d.o.Store.Apply(ctx, store.Fence{}, nil, ops)
		for _, s := range some {
			if err != nil {
				d.engine.Refused(order.Action{Do: order.Keep, Order: d.orders[s.Name]}, d.o.Clock())
				continue
			}
			d.states[s.Name] = s
		}
	}
}

// tidy forgets jobs whose runs have ended, and runs of orders that have long
// been removed.
func (d *Dispatcher) tidy() {
	d.tidyRuns()
	all, err := d.o.Jobs.List(d.ctx)
	if err != nil {
		return // the next one does
	}
	for id := range all {
		n, ok := numberOf(id)
		if !ok {
			continue
		}
		d.mu.Lock()
		active := d.active[n] != nil
		d.mu.Unlock()
		if !active && d.over(n) {
			d.o.Jobs.Forget(d.ctx, id)
		}
	}
}

// tidyRuns forgets the runs of orders that are not in the file, and ended long ago.
func (d *Dispatcher) tidyRuns() {
	var old []uint64
	d.runs.View(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for name, all := range d.byOrder {
			for _, n := range all {
				if r := d.runs.Get(n); d.orders[name] == nil && d.active[n] == nil && r != nil && r.Status.Over() &&
					d.o.Clock().Wall.Sub(r.FiredAt) > forgetAfter {
					old = append(old, n)
				}
			}
		}
	})
	for len(old) > 0 && d.ctx.Err() == nil {
		some := old[:min(len(old), together)]
		old = old[len(some):]
		d.record(func(c *ledger.Change[order.Run]) { d.erase(c, some) })
	}
}

// over reports whether a run has ended, or is not known any more.
func (d *Dispatcher) over(n uint64) (over bool) {
	d.runs.View(func() {
		r := d.runs.Get(n)
		over = r == nil || r.Status.Over()
	})
	return over
}
