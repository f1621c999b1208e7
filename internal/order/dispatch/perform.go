package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
)

// perform carries out decisions, after they are stored in batches.
func (d *Dispatcher) perform(actions []order.Action) {
	for batch := range slices.Chunk(actions, batchSize) {
		d.performBatch(batch)
	}
}

func (d *Dispatcher) performBatch(actions []order.Action) {
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
				answerAsker(a, 0, err)
				continue
			}
			d.mu.Lock()
			d.begin(runs[i], false)
			d.mu.Unlock()
			answerAsker(a, runs[i].Number, nil)
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

// check runs the check of an order and passes the result to the engine.
func (d *Dispatcher) check(o *spec.Order) {
	result, done := d.o.Checks.Wait(d.ctx, d.checkOf(o))
	if !done {
		return
	}
	d.mu.Lock()
	d.engine.Checked(o.Name, result.Open, d.o.Clock())
	d.mu.Unlock()
	d.poke()
}

// checkOf returns the check of an order that has one.
func (d *Dispatcher) checkOf(o *spec.Order) gate.Check {
	g := o.Gate(order.Condition)
	return gate.Check{Argv: g.Check, Dir: o.Dir, Env: append(d.o.Environ(o.Env), envOrder+"="+o.Name), Limit: g.Limit}
}

// written tells the engine whether decisions could be stored.
func (d *Dispatcher) written(actions []order.Action, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		for _, a := range actions {
			d.states[a.Order.Name] = a.State
		}
		return
	}
	for _, a := range slices.Backward(actions) {
		d.engine.Refused(a, d.o.Clock())
	}
	if d.ctx.Err() == nil {
		d.o.Logger.Error("cannot store the states of orders; trying again", "orders", len(actions),
			"error", err)
	}
}

// fire stores that orders have fired: their runs, states and events in one step.
func (d *Dispatcher) fire(ctx context.Context, fires []order.Action) (runs []order.Run, err error) {
	now := d.o.Clock()
	err = d.history.runs.Update(ctx, func(c *ledger.Change[order.Run]) error {
		runs = runs[:0]
		last := make(map[string]int) // an order that fires more than once has one state
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
			message := fmt.Sprintf("order %s fired: %s", r.Order, r.Reason)
			c.Also(d.o.Log.Op(runEvent(event.OrderFired, *r, message, false)))
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

// runEvent returns an event about a run. again is set if another attempt follows.
func runEvent(t event.Type, r order.Run, message string, again bool) event.Event {
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
	for name, at := range map[string]time.Time{"started_at": r.StartedAt, "ended_at": r.EndedAt} {
		if r.Status.Over() && !at.IsZero() {
			data[name] = at
		}
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
	return event.Event{
		Type: t, Path: order.PathOf(r.Order), Actor: cmp.Or(r.By, "orders"), Message: message,
	}.With(data)
}

func stateKey(name string) string { return statePrefix + "/" + name }

// stateOp returns the operation that stores the state of an order.
func stateOp(s order.State) store.Op {
	value, err := json.Marshal(s)
	if err != nil {
		value = []byte("{}")
	}
	return store.Op{Kind: store.Put, Key: stateKey(s.Name), Value: value}
}

func stateOps(states []order.State) (ops []store.Op) {
	for _, s := range states {
		ops = append(ops, stateOp(s))
	}
	return ops
}

// save stores the states of orders, and events about those that were skipped or slowed.
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
		e := event.Event{Path: order.PathOf(a.Order.Name), Actor: "orders"}
		switch a.Do {
		case order.Slow:
			e.Type, e.Message = event.OrderPaced, fmt.Sprintf("order %s may trigger itself: %s", a.Order.Name, a.Reason)
		case order.Drop:
			e.Type, e.Message = event.OrderSkipped, fmt.Sprintf("order %s skipped: %s", a.Order.Name, a.Reason)
		default:
			continue
		}
		ops = append(ops, d.o.Log.Op(e.With(map[string]any{"order": a.Order.Name, "reason": a.Reason})))
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
