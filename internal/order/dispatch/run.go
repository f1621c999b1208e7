package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/ledger"
	"github.com/coppice-dev/coppice/supervisor"
)

// idPrefix begins the IDs of runs.
const idPrefix = "r-"

// ID returns the ID of a run that people see.
func ID(n uint64) string { return ledger.ID(idPrefix, n) }

// jobID returns the ID of the job of a run, which names its slot.
func jobID(r *order.Run) string { return order.PathOf(r.Order) + "/" + ID(r.Number) }

// OrderOf returns the name of the order whose run a job is; "" if it is none.
func OrderOf(jobID string) string {
	if _, ok := numberOf(jobID); !ok {
		return ""
	}
	return strings.TrimPrefix(path.Dir(jobID), order.PathOf(""))
}

// numberOf returns the number of the run whose job has an ID.
func numberOf(jobID string) (uint64, bool) {
	i := strings.LastIndexByte(jobID, '/')
	if !strings.HasPrefix(jobID, "orders/") || !strings.HasPrefix(jobID[i+1:], idPrefix) {
		return 0, false
	}
	n, err := ledger.ParseID(idPrefix, jobID[i+1:])
	return n, err == nil
}

// activeRun is a run in progress. Its own goroutine follows it to its end, and alone uses record and
// old.
type activeRun struct {
	d      *Dispatcher
	record order.Run
	old    bool // the current attempt may have been started by an earlier dispatcher

	order  string
	cancel context.CancelFunc
	// The lock of the dispatcher guards these.
	starting bool     // its command is being started, and may run already
	job      *job.Job // of the current attempt; nil between attempts
	stop     string   // why the run must end; "" if it need not
}

// Reasons to end a run.
const (
	stoppedRun   = "it was stopped"
	removedOrder = "the order was removed from the file"
)

// begin starts the goroutine of a run. The caller holds the lock.
func (d *Dispatcher) begin(record order.Run, old bool) {
	ctx, cancel := context.WithCancel(d.ctx)
	r := &activeRun{d: d, record: record, old: old, order: record.Order, cancel: cancel}
	d.active[record.Number] = r
	if d.halting {
		r.halt(stoppedRun)
	}
	d.wg.Go(func() {
		defer cancel()
		r.run(ctx)
	})
}

// halt ends the run. why is the reason if it has no command to stop now. The caller holds
// the lock.
func (r *activeRun) halt(why string) {
	r.stop = why
	if r.job != nil {
		r.job.Stop()
	} else {
		r.cancel()
	}
}

// run makes attempts until the run has ended, each with the current definition of the order.
func (r *activeRun) run(ctx context.Context) {
	for {
		if r.record.Status == order.Waiting {
			if !r.awaitAttempt(ctx) {
				return
			}
			r.old = false
		}
		var output []string
		switch o := r.d.inForce(r.order); {
		case r.record.Status.Over(): // it was stopped while it waited
		case o != nil && o.Task != nil && len(o.Command) == 0 && !(r.old && r.hasJob()):
			if r.noteStop(); !r.record.Status.Over() {
				r.createTask(ctx, o)
			}
		default:
			output = r.attempt(ctx, o)
		}
		if r.d.ctx.Err() != nil && !r.record.Status.Over() {
			return // the next daemon continues
		}
		if !r.finishAttempt(output) {
			return
		}
		over := r.record.Status.Over()
		if over {
			r.d.ended(r)
		}
		r.forgetJob()
		if over {
			return
		}
		r.old = false
	}
}

// ended removes a run that has ended from the active ones.
func (d *Dispatcher) ended(r *activeRun) {
	d.mu.Lock()
	delete(d.active, r.record.Number)
	d.engine.Ended(r.order)
	d.mu.Unlock()
	d.history.changed()
	d.poke()
}

// awaitAttempt waits until the next attempt is due and records that it begins, or that the run has
// ended. It reports false if the next daemon has to do that.
func (r *activeRun) awaitAttempt(ctx context.Context) bool {
	rec := &r.record
	// Bounded, however the clock is set.
	select {
	case <-time.After(min(time.Until(rec.RetryAt), supervisor.DefaultBackoffCap)):
	case <-ctx.Done():
	}
	now := r.d.o.Clock()
	switch stop := r.stopReason(); {
	case stop != "":
		rec.Status, rec.RetryAt, rec.EndedAt = order.Stopped, time.Time{}, now.Wall.Round(0)
		rec.Error = short(fmt.Sprintf("%s before attempt %d; the last one: %s", stop, rec.Attempt+1, rec.Error))
		return true
	case ctx.Err() != nil:
		return false
	}
	rec.Status, rec.Attempt, rec.RetryAt, rec.Boot = order.Running, rec.Attempt+1, time.Time{}, now.Boot
	rec.Code, rec.Signal, rec.Error, rec.Duration = nil, "", "", 0
	rec.StartedAt, rec.EndedAt = time.Time{}, time.Time{}
	return r.d.history.record(r.d.ctx, func(c *ledger.Change[order.Run]) { c.Put(rec.Number, *rec) })
}

// stopReason returns why the run must end, or "" if it need not.
func (r *activeRun) stopReason() string {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	return r.stop
}

// noteStop ends the record of a run that must end before its attempt begins.
func (r *activeRun) noteStop() {
	if stop := r.stopReason(); stop != "" {
		r.record.Status, r.record.Error = order.Stopped, stop+" before it began"
		r.record.EndedAt = r.d.o.Clock().Wall.Round(0)
	}
}

// finishAttempt decides whether another attempt follows, and records how this one ended.
// It reports false if the next daemon has to do that.
func (r *activeRun) finishAttempt(lines []string) bool {
	d, rec := r.d, &r.record
	ended := *rec
	if o := d.inForce(r.order); o != nil { // otherwise it was removed and is not tried again
		if delay, again := order.Retry(o, rec.Attempt, rec.Status); again {
			if o.Backoff.Jitter {
				delay = rand.N(delay + 1)
			}
			rec.Status, rec.RetryAt = order.Waiting, d.o.Clock().Wall.Add(delay).Round(0)
		}
	}
	kind, message := event.OrderCompleted, fmt.Sprintf("order %s completed", r.order)
	if ended.Status != order.Completed {
		kind, message = event.OrderFailed, fmt.Sprintf("order %s %s: %s", r.order, ended.Status, ended.Error)
		if rec.Status == order.Waiting {
			message += fmt.Sprintf("; attempt %d follows at %s", rec.Attempt+1, rec.RetryAt.Format(time.TimeOnly))
		}
	}
	e := runEvent(kind, ended, message, rec.Status == order.Waiting)
	var old []uint64
	if rec.Status.Over() {
		old = d.history.excess(r.order, d.o.History, d.isActive)
	}
	return d.history.record(d.ctx, func(c *ledger.Change[order.Run]) {
		c.Put(rec.Number, *rec)
		c.Also(d.o.Log.Op(e))
		if len(lines) > 0 {
			c.Also(outputOp(rec, lines))
		}
		d.history.erase(c, old)
	})
}

// isActive reports whether a run has not ended.
func (d *Dispatcher) isActive(n uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.active[n] != nil
}

// inForce returns the current order with a name, or nil if there is none.
func (d *Dispatcher) inForce(name string) *spec.Order {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.orders[name]
}

// forgetTimeout bounds the removal of a job, also while the dispatcher closes.
const forgetTimeout = 5 * time.Second

// forgetJob removes the job of a recorded attempt. If it fails, the next dispatcher does.
func (r *activeRun) forgetJob() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.d.ctx), forgetTimeout)
	defer cancel()
	r.d.o.Jobs.Forget(ctx, jobID(&r.record))
}
