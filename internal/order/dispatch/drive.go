package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
	"github.com/coppice-dev/coppice/supervisor"
)

// idOf names the slot of a run.
func idOf(r order.Run) string { return order.PathOf(r.Order) + "/" + ID(r.Number) }

// OrderOf returns the name of the order that the job of an ID is a run of; empty
// if it is none.
func OrderOf(id string) string {
	if _, ok := numberOf(id); !ok {
		return ""
	}
	return strings.TrimPrefix(path.Dir(id), order.PathOf(""))
}

// numberOf is the inverse.
func numberOf(id string) (uint64, bool) {
	i := strings.LastIndexByte(id, '/')
	if !strings.HasPrefix(id, "orders/") || !strings.HasPrefix(id[i+1:], IDPrefix) {
		return 0, false
	}
	n, err := ledger.ParseID(IDPrefix, id[i+1:])
	return n, err == nil
}

// begin sees a run through to its end. The mutex is held.
func (d *Dispatcher) begin(r order.Run, old bool) {
	ctx, cancel := context.WithCancel(d.ctx)
	run := &drive{order: r.Order, cancel: cancel}
	d.active[r.Number] = run
	if d.halting {
		run.halt(stoppedRun)
	}
	d.wg.Go(func() {
		defer cancel()
		d.drive(ctx, run, r, old)
	})
}

// inForce is the order of a name; nil if there is none any more.
func (d *Dispatcher) inForce(name string) *spec.Order {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.orders[name]
}

// drive makes attempts at a run until it has ended, each as the order says by
// then. old: it is of a predecessor.
func (d *Dispatcher) drive(ctx context.Context, run *drive, r order.Run, old bool) {
	for {
		if r.Status == order.Waiting {
			if !d.await(ctx, &r, run) {
				return
			}
			old = false
		}
		var output []string
		switch o := d.inForce(r.Order); {
		case r.Status.Over(): // it was stopped while it waited
		case o != nil && o.Task != nil && len(o.Command) == 0 && !(old && d.sent(r)):
			if d.stopped(run, &r); !r.Status.Over() {
				d.makeTask(ctx, &r, o)
			}
		default:
			output = d.attempt(ctx, run, &r, o, old)
		}
		if d.ctx.Err() != nil && !r.Status.Over() {
			return // the next daemon goes on
		}
		if !d.settle(&r, output) {
			return
		}
		over := r.Status.Over()
		if over {
			d.mu.Lock()
			delete(d.active, r.Number)
			d.engine.Ended(r.Order)
			close(d.moved)
			d.moved = make(chan struct{})
			d.mu.Unlock()
			d.Poke()
		}
		d.forget(r)
		if over {
			return
		}
		old = false
	}
}

// await waits for the next attempt, and writes down that it begins, or notes that
// there is none. It reports false if that is for the next daemon to do.
func (d *Dispatcher) await(ctx context.Context, r *order.Run, run *drive) bool {
	timer := time.NewTimer(min(time.Until(r.RetryAt), supervisor.DefaultBackoffCap)) // however the clock is set
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	d.mu.Lock()
	stop := run.stop
	d.mu.Unlock()
	switch {
	case stop != "":
		r.Status, r.RetryAt, r.EndedAt = order.Stopped, time.Time{}, d.o.Clock().Wall.Round(0)
		r.Error = short(fmt.Sprintf("%s before attempt %d; the last one: %s", stop, r.Attempt+1, r.Error))
		return true
	case ctx.Err() != nil:
		return false
	}
	r.Status, r.Attempt, r.RetryAt, r.Boot = order.Running, r.Attempt+1, time.Time{}, d.o.Clock().Boot
	r.Code, r.Signal, r.Error, r.StartedAt, r.EndedAt, r.Duration = nil, "", "", time.Time{}, time.Time{}, 0
	return d.record(func(c *ledger.Change[order.Run]) { c.Put(r.Number, *r) })
}

// record writes until it is written. It reports false when the dispatcher ends before.
func (d *Dispatcher) record(change func(*ledger.Change[order.Run])) bool {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		ctx, cancel := context.WithTimeout(d.ctx, writeTimeout)
		err := d.runs.Update(ctx, func(c *ledger.Change[order.Run]) error {
			change(c)
			return nil
		})
		cancel()
		switch {
		case err == nil:
			return true
		case d.ctx.Err() != nil:
			return false
		}
		d.o.Logger.Error("a run of an order cannot be written; it is tried again", "error", err)
		select {
		case <-time.After(pause):
		case <-d.ctx.Done():
			return false
		}
	}
}

// output is what is kept of what a run wrote.
type output struct {
	Attempt int      `json:"attempt"`
	Lines   []string `json:"lines"`
}

// settle decides whether it is tried again, and writes down how it ended. It
// reports false when that is for the next daemon to do.
func (d *Dispatcher) settle(r *order.Run, lines []string) bool {
	ended := *r
	if o := d.inForce(r.Order); o != nil { // one that was removed is not tried again
		if delay, again := order.Retry(o, r.Attempt, r.Status); again {
			if o.Backoff.Jitter {
				delay = rand.N(delay + 1)
			}
			r.Status, r.RetryAt = order.Waiting, d.o.Clock().Wall.Add(delay).Round(0)
		}
	}
	kind, message := event.OrderCompleted, fmt.Sprintf("order %s completed", r.Order)
	if ended.Status != order.Completed {
		kind, message = event.OrderFailed, fmt.Sprintf("order %s %s: %s", r.Order, ended.Status, ended.Error)
		if r.Status == order.Waiting {
			message += fmt.Sprintf("; attempt %d follows at %s", r.Attempt+1, r.RetryAt.Format(time.TimeOnly))
		}
	}
	e := told(kind, ended, message, r.Status == order.Waiting)
	old := d.superfluous(r)
	value, err := json.Marshal(output{r.Attempt, lines})
	if err != nil {
		value = []byte("{}")
	}
	return d.record(func(c *ledger.Change[order.Run]) {
		c.Put(r.Number, *r)
		c.Also(d.o.Log.Op(e))
		if len(lines) > 0 {
			c.Also(store.Op{Kind: store.Put, Key: outputKey(r.Number), Value: value})
		}
		d.erase(c, old)
	})
}

// erase forgets runs, with what they wrote.
func (d *Dispatcher) erase(c *ledger.Change[order.Run], numbers []uint64) {
	for _, n := range numbers {
		if d.runs.Get(n) != nil {
			c.Delete(n)
			c.Also(store.Op{Kind: store.Delete, Key: outputKey(n)})
		}
	}
}

func outputKey(n uint64) string { return store.SequenceKey(outputPrefix, n) }

// superfluous are the oldest runs of an order that there is no room for in the history.
func (d *Dispatcher) superfluous(r *order.Run) []uint64 {
	if !r.Status.Over() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.byOrder[r.Order]
	var old []uint64
	left := len(all)
	for _, n := range all {
		if left <= d.o.History || len(old) >= 10 {
			break
		}
		if d.active[n] == nil {
			old = append(old, n)
			left--
		}
	}
	return old
}

// forgetTime is for what is left of a run to be removed, also at the end.
const forgetTime = 5 * time.Second

// forget removes what is left of a run that is recorded; or else tidy does.
func (d *Dispatcher) forget(r order.Run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), forgetTime)
	defer cancel()
	d.o.Jobs.Forget(ctx, idOf(r))
}
