package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
)

// IDPrefix is what the ids of runs begin with.
const IDPrefix = "r-"

// ID is the id of a run, as people see it.
func ID(n uint64) string { return ledger.ID(IDPrefix, n) }

// perform carries out what was decided: several things in one write, and
// nothing before it is written.
func (d *Dispatcher) perform(actions []order.Action) {
	for len(actions) > 0 {
		n := min(len(actions), together)
		d.write(actions[:n])
		actions = actions[n:]
	}
}

func (d *Dispatcher) write(actions []order.Action) {
	var fires, others []order.Action
	for _, a := range actions {
		switch a.Do {
		case order.Check:
			d.wg.Go(func() { d.check(a.Order) })
		case order.Fire:
			fires = append(fires, a)
		default:
			others = append(others, a)
		}
	}
	ctx, cancel := context.WithTimeout(d.ctx, writeTimeout)
	defer cancel()
	if len(fires) > 0 {
		runs, err := d.fire(ctx, fires)
		d.written(fires, err)
		for i, a := range fires {
			if err != nil {
				answer(a, 0, err)
				continue
			}
			d.mu.Lock()
			d.begin(runs[i], false)
			d.mu.Unlock()
			answer(a, runs[i].Number, nil)
		}
	}
	if len(others) > 0 {
		err := d.save(ctx, others)
		d.written(others, err)
		if d.o.Paced != nil && err == nil && slices.ContainsFunc(others,
			func(a order.Action) bool { return a.Do == order.Slow }) {
			d.o.Paced()
		}
	}
}

// written tells the engine what could not be.
func (d *Dispatcher) written(actions []order.Action, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range actions {
		if err == nil {
			d.states[a.Order.Name] = a.State
		}
	}
	for i := len(actions) - 1; i >= 0 && err != nil; i-- { // what came last is taken back first
		d.engine.Refused(actions[i], d.o.Clock())
	}
	if err != nil && d.ctx.Err() == nil {
		d.o.Logger.Error("what becomes of orders cannot be written; it is tried again", "orders", len(actions),
			"error", err)
	}
}

// fire writes down that orders are fired: their runs, their states, and the events, in one step.
func (d *Dispatcher) fire(ctx context.Context, fires []order.Action) (runs []order.Run, err error) {
	now := d.o.Clock()
	err = d.runs.Update(ctx, func(c *ledger.Change[order.Run]) error {
		runs = runs[:0]
		last := make(map[string]int) // one that is fired more than once has one state
		for i, a := range fires {
			last[a.Order.Name] = i
		}
		for i, a := range fires {
			c.Add(func(n uint64) order.Run {
				r := order.Run{
					Number: n, Order: a.Order.Name, Reason: a.Reason, By: a.By, Status: order.Running, Attempt: 1,
					FiredAt: now.Wall.Round(0), Events: a.Events, Causes: a.Causes, Timeout: a.Order.Timeout,
					Boot: now.Boot,
				}
				runs = append(runs, r)
				return r
			})
			r := &runs[len(runs)-1]
			c.Also(d.o.Log.Op(told(event.OrderFired, *r, fmt.Sprintf("order %s fired: %s", r.Order, r.Reason), false)))
			if last[a.Order.Name] == i {
				c.Also(stateOp(a.State))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return runs, nil
}

// told is an event about a run; again says that another attempt of it follows.
func told(t event.Type, r order.Run, message string, again bool) event.Event {
	actor := "orders"
	if r.By != "" {
		actor = r.By
	}
	data := map[string]any{"order": r.Order, "run": ID(r.Number), "attempt": r.Attempt, "reason": r.Reason}
	if again {
		data["again"] = true
	}
	if len(r.Causes) > 0 {
		data["causes"] = r.Causes
	}
	if r.Status.Over() {
		data["status"], data["duration_ms"] = r.Status, r.Duration.Milliseconds()
	}
	if r.Code != nil {
		data["code"] = *r.Code
	}
	if r.Signal != "" {
		data["signal"] = r.Signal
	}
	if r.Error != "" {
		data["error"] = r.Error
	}
	if r.Task != "" {
		data["task"] = r.Task
	}
	if r.Events != nil {
		data["events"] = r.Events.Count
	}
	return event.Event{Type: t, Path: order.PathOf(r.Order), Actor: actor, Message: message}.With(data)
}

// save writes states, and that orders were skipped.
func (d *Dispatcher) save(ctx context.Context, actions []order.Action) error {
	var ops []store.Op
	last := make(map[string]int)
	for _, a := range actions {
		op := stateOp(a.State)
		if i, twice := last[op.Key]; twice {
			ops[i] = op
		} else {
			last[op.Key] = len(ops)
			ops = append(ops, op)
		}
		if a.Do == order.Slow {
			ops = append(ops, d.o.Log.Op(event.Event{
				Type: event.OrderPaced, Path: order.PathOf(a.Order.Name), Actor: "orders",
				Message: fmt.Sprintf("order %s may trigger itself: %s", a.Order.Name, a.Reason),
			}.With(map[string]any{"order": a.Order.Name, "reason": a.Reason})))
		}
		if a.Do == order.Drop {
			ops = append(ops, d.o.Log.Op(event.Event{
				Type: event.OrderSkipped, Path: order.PathOf(a.Order.Name), Actor: "orders",
				Message: fmt.Sprintf("order %s skipped: %s", a.Order.Name, a.Reason),
			}.With(map[string]any{"order": a.Order.Name, "reason": a.Reason})))
		}
	}
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		_, err := d.o.Store.Apply(ctx, store.Fence{}, nil, ops)
		if !errors.Is(err, store.ErrUnknown) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}
