package dispatch

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/store"
)

// loop makes the engine decide whenever there is something to decide.
func (d *Dispatcher) loop() {
	progress := time.Now()
	for {
		if d.writing.lock(d.ctx) != nil {
			return
		}
		d.mu.Lock()
		now := d.o.Clock()
		var actions []order.Action
		wait := maxWait
		if !d.closed {
			actions = d.engine.Step(now)
			wait = d.engine.Wait(now, maxWait)
		}
		var states []order.State
		if time.Since(progress) > time.Minute {
			states, progress = d.engine.Progress(maxRecounted), time.Now()
		}
		for _, s := range d.removed {
			if d.orders[s.Name] == nil { // otherwise a newer state is stored anyway
				states = append(states, s)
			}
		}
		d.removed = nil
		d.mu.Unlock()
		d.perform(actions)
		for _, s := range states {
			d.saveState(s)
		}
		d.writing.unlock()
		if len(actions) > 0 {
			continue
		}
		select {
		case <-d.wake:
		case <-time.After(wait):
		case <-d.ctx.Done():
			return
		}
	}
}

// follow passes the events of the log to the engine.
func (d *Dispatcher) follow() {
	for d.ctx.Err() == nil {
		d.mu.Lock()
		after := d.engine.Seen()
		d.mu.Unlock()
		for e, err := range d.o.Log.Follow(d.ctx, after, event.Filter{}) {
			if err != nil {
				if d.ctx.Err() == nil {
					d.o.Logger.Warn("cannot read the event log; orders wait for it", "error", err)
				}
				break
			}
			d.mu.Lock()
			d.engine.Event(e)
			due := d.engine.Wait(order.Now{}, maxWait) == 0
			d.mu.Unlock()
			if due {
				d.poke()
			}
		}
		select {
		case <-time.After(time.Second):
		case <-d.ctx.Done():
		}
	}
}

// saveState stores a state; a failure is repaired by a later write.
func (d *Dispatcher) saveState(s order.State) {
	ctx, cancel := context.WithTimeout(d.ctx, writeTimeout)
	defer cancel()
	d.o.Store.Apply(ctx, store.Fence{}, nil, []store.Op{stateOp(s)})
}
