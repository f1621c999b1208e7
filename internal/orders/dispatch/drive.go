package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/errand"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/orders"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
	"github.com/coppice-dev/coppice/supervisor"
)

// idOf names the slot of a run.
func idOf(r orders.Run) string { return orders.PathOf(r.Order) + "/" + ID(r.Number) }

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
func (d *Dispatcher) begin(r orders.Run, old bool) {
	ctx, cancel := context.WithCancel(d.ctx)
	run := &drive{order: r.Order, cancel: cancel}
	d.active[r.Number] = run
	if d.halting {
		run.halt(stoppedEarly)
	}
	d.wg.Go(func() {
		defer cancel()
		d.drive(ctx, run, r, old)
	})
}

// inForce is the order of a name; nil if there is none any more.
func (d *Dispatcher) inForce(name string) *spec.StandingOrder {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.orders[name]
}

// drive makes attempts at a run until it has ended, each as the order says by
// then. old: it is of a predecessor.
func (d *Dispatcher) drive(ctx context.Context, run *drive, r orders.Run, old bool) {
	for {
		if r.Status == orders.Waiting {
			if !d.await(ctx, &r, run) {
				return
			}
			old = false
		}
		var output []string
		switch o := d.inForce(r.Order); {
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

// sent reports whether a run of a predecessor was a command, whatever the order is now.
func (d *Dispatcher) sent(r orders.Run) bool {
	all, err := d.o.Errands.List(d.ctx)
	if err != nil {
		return true // which is found out in the attempt
	}
	_, found := all[idOf(r)]
	return found
}

// await waits for the next attempt, and writes down that it begins. It reports
// false if that is for the next daemon to do.
func (d *Dispatcher) await(ctx context.Context, r *orders.Run, run *drive) bool {
	timer := time.NewTimer(min(time.Until(r.RetryAt), supervisor.DefaultBackoffCap)) // however the clock is set
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	d.mu.Lock()
	stop := run.stop != ""
	d.mu.Unlock()
	if ctx.Err() != nil && !stop {
		return false
	}
	r.Status, r.Attempt, r.RetryAt, r.Boot = orders.Running, r.Attempt+1, time.Time{}, d.o.Clock().Boot
	r.Code, r.Signal, r.Error, r.StartedAt, r.EndedAt, r.Duration = nil, "", "", time.Time{}, time.Time{}, 0
	if stop {
		r.Attempt--
		return true // and is over at once, see attempt
	}
	return d.record(func(c *ledger.Change[orders.Run]) { c.Put(r.Number, *r) })
}

// record writes until it is written. It reports false when the dispatcher ends before.
func (d *Dispatcher) record(change func(*ledger.Change[orders.Run])) bool {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		ctx, cancel := context.WithTimeout(d.ctx, writeTimeout)
		err := d.runs.Update(ctx, func(c *ledger.Change[orders.Run]) error {
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

// attempt runs the command once, and notes how it ended.
func (d *Dispatcher) attempt(ctx context.Context, run *drive, r *orders.Run, o *spec.StandingOrder, old bool) (output []string) {
	if d.stopped(run, r); r.Status.Over() && !old {
		return nil
	}
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
	default:
		if old {
			break // it runs already, whatever else does
		}
		select {
		case d.turns <- struct{}{}:
			defer func() { <-d.turns }()
		case <-ctx.Done():
			d.stopped(run, r)
			return nil
		}
	}
	return d.errand(ctx, run, r, o, old)
}

// stopped notes that a run is to end before it began, if it is.
func (d *Dispatcher) stopped(run *drive, r *orders.Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if run.stop != "" {
		r.Status, r.Error, r.EndedAt = orders.Stopped, run.stop, d.o.Clock().Wall.Round(0)
	}
}

// errand starts the command, or finds it, and waits for its end.
func (d *Dispatcher) errand(ctx context.Context, run *drive, r *orders.Run, o *spec.StandingOrder, old bool) (output []string) {
	e, err := d.send(ctx, r, o, old)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Status, r.Error, r.EndedAt = orders.Interrupted, err.Error(), d.o.Clock().Wall.Round(0)
		return nil
	case err != nil:
		d.stopped(run, r)
		return nil
	}
	d.mu.Lock()
	run.errand = e
	if run.stop != "" {
		e.Stop()
	}
	d.mu.Unlock()
	select {
	case <-e.Done():
	case <-d.ctx.Done():
		return nil
	}
	d.mu.Lock()
	run.errand = nil
	d.mu.Unlock()
	res := e.Result(d.ctx)
	r.Status = orders.Status(res.Outcome)
	r.StartedAt, r.EndedAt = res.StartedAt.Round(0), res.EndedAt.Round(0)
	if !res.StartedAt.IsZero() {
		r.Duration = max(0, res.EndedAt.Sub(res.StartedAt))
	}
	if res.Code >= 0 {
		r.Code = &res.Code
	}
	r.Signal = res.Signal
	if res.Err != nil {
		r.Error = short(res.Err.Error())
	}
	return res.Output
}

// short bounds what is kept of an error.
func short(text string) string {
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// send starts the command of a run, until it is known whether that was done.
// fs.ErrNotExist: nothing is left of it, and it may have run.
func (d *Dispatcher) send(ctx context.Context, r *orders.Run, o *spec.StandingOrder, old bool) (*errand.Errand, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		// Whoever stops the run waits for that, so that he stops what was started.
		e, err := d.sendOnce(d.ctx, r, o, old)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return e, err
		}
		if ctx.Err() != nil {
			if e, err := d.o.Errands.Find(d.ctx, jobOf(r)); err == nil {
				return e, nil
			}
			return nil, context.Cause(ctx)
		}
		d.o.Logger.Warn("a run of an order cannot be started, or found; it is tried again", "run", ID(r.Number), "order", r.Order, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// jobOf is the job of a run as far as its record tells.
func jobOf(r *orders.Run) errand.Job {
	return errand.Job{ID: idOf(*r), Attempt: uint64(r.Attempt), Timeout: r.Timeout}
}

func (d *Dispatcher) sendOnce(ctx context.Context, r *orders.Run, o *spec.StandingOrder, old bool) (*errand.Errand, error) {
	j := jobOf(r)
	if old {
		e, err := d.o.Errands.Find(ctx, j)
		if !errors.Is(err, fs.ErrNotExist) {
			return e, err
		}
		// It was written down and not started, unless the machine has ended
		// since: what it leaves behind may be lost with that.
		if r.Boot != d.o.Clock().Boot || o == nil {
			return nil, fmt.Errorf("nothing is left of it: %w", fs.ErrNotExist)
		}
	}
	if o == nil {
		return nil, fmt.Errorf("the order is no longer in the file: %w", fs.ErrNotExist)
	}
	j.Argv, j.Dir = o.Command, o.Dir
	events, err := d.events(ctx, r.Events)
	if err != nil {
		return nil, err
	}
	j.Env, j.Input = d.environ(r, o, events), events
	// A start that is given up is stopped. It is not given up where this daemon
	// ends: the run goes on, for the next one.
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer cancel()
	return d.o.Errands.Start(starting, j)
}

// startTime is how long a start may take; it is stopped, and tried again, then.
const startTime = 30 * time.Second

// Environment of runs.
const (
	envOrder      = "COPPICE_ORDER"
	envRun        = "COPPICE_ORDER_RUN"
	envAttempt    = "COPPICE_ORDER_ATTEMPT"
	envReason     = "COPPICE_ORDER_REASON"
	envEvents     = "COPPICE_EVENTS"
	envEvent      = "COPPICE_EVENT"
	maxEventInEnv = 64 << 10
)

func (d *Dispatcher) environ(r *orders.Run, o *spec.StandingOrder, events []byte) []string {
	env := append(d.o.Environ(o.Env),
		envOrder+"="+r.Order, envRun+"="+ID(r.Number), envAttempt+"="+strconv.Itoa(r.Attempt), envReason+"="+strings.ReplaceAll(r.Reason, "\x00", ""))
	if r.Events == nil {
		return env
	}
	env = append(env, envEvents+"="+strconv.Itoa(r.Events.Count))
	last := bytes.TrimSuffix(events, []byte("\n"))
	last = last[bytes.LastIndexByte(last, '\n')+1:]
	if len(last) > 0 && len(last) <= maxEventInEnv {
		env = append(env, envEvent+"="+string(last))
	}
	return env
}

// events are those of a batch, as NDJSON.
func (d *Dispatcher) events(ctx context.Context, b *orders.Batch) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	var out bytes.Buffer
	filter := event.Filter{Types: b.Types, Path: b.Path}
	for after := b.After; after < b.Until; {
		found, next, err := d.o.Log.Read(ctx, after, filter, 1000)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if e.Seq > b.Until {
				break
			}
			if e.Type == event.EventsCompacted || e.Type == event.EventsReset {
				continue // what is no longer kept cannot be handed over
			}
			if err := event.WriteNDJSON(&out, e); err != nil {
				return nil, err
			}
		}
		if next <= after {
			break
		}
		after = next
	}
	return out.Bytes(), nil
}

// makeTask makes the task of a run, once.
func (d *Dispatcher) makeTask(ctx context.Context, r *orders.Run, o *spec.StandingOrder) {
	begin := d.o.Clock().Wall
	r.StartedAt = begin.Round(0)
	if d.o.Task == nil {
		r.Status, r.Error, r.EndedAt = orders.Failed, "there are no tasks here", begin.Round(0)
		return
	}
	t := *o.Task
	t.Order = o.Name
	if events, err := d.events(ctx, r.Events); err == nil && len(events) > 0 {
		const most = 64 << 10
		if len(events) > most {
			events = append(events[:bytes.LastIndexByte(events[:most], '\n')+1], "…\n"...)
		}
		t.Text = strings.TrimLeft(t.Text+"\n\nEvents:\n\n"+string(events), "\n")
	}
	id, err := d.o.Task(ctx, ID(r.Number), t)
	switch {
	case err == nil:
		r.Status, r.Task = orders.Completed, id
	case ctx.Err() != nil:
		return
	default:
		r.Status, r.Error = orders.Failed, short(err.Error())
	}
	r.EndedAt = d.o.Clock().Wall.Round(0)
	r.Duration = max(0, r.EndedAt.Sub(begin))
}

// output is what is kept of what a run wrote.
type output struct {
	Attempt int      `json:"attempt"`
	Lines   []string `json:"lines"`
}

// settle decides whether it is tried again, and writes down how it ended. It
// reports false when that is for the next daemon to do.
func (d *Dispatcher) settle(r *orders.Run, lines []string) bool {
	ended := *r
	if o := d.inForce(r.Order); o != nil { // one that was removed is not tried again
		if delay, again := orders.Retry(o, r.Attempt, r.Status); again {
			if o.Backoff.Jitter {
				delay = rand.N(delay + 1)
			}
			r.Status, r.RetryAt = orders.Waiting, d.o.Clock().Wall.Add(delay).Round(0)
		}
	}
	kind, message := event.OrderCompleted, fmt.Sprintf("order %s completed", r.Order)
	if ended.Status != orders.Completed {
		kind, message = event.OrderFailed, fmt.Sprintf("order %s %s: %s", r.Order, ended.Status, ended.Error)
		if r.Status == orders.Waiting {
			message += fmt.Sprintf("; attempt %d follows at %s", r.Attempt+1, r.RetryAt.Format(time.TimeOnly))
		}
	}
	e := told(kind, ended, message)
	old := d.superfluous(r)
	value, err := json.Marshal(output{r.Attempt, lines})
	if err != nil {
		value = []byte("{}")
	}
	return d.record(func(c *ledger.Change[orders.Run]) {
		c.Put(r.Number, *r)
		c.Also(d.o.Log.Op(e))
		if len(lines) > 0 {
			c.Also(store.Op{Kind: store.Put, Key: outputKey(r.Number), Value: value})
		}
		d.erase(c, old)
	})
}

// erase forgets runs, with what they wrote.
func (d *Dispatcher) erase(c *ledger.Change[orders.Run], numbers []uint64) {
	for _, n := range numbers {
		if d.runs.Get(n) != nil {
			c.Delete(n)
			c.Also(store.Op{Kind: store.Delete, Key: outputKey(n)})
		}
	}
}

func outputKey(n uint64) string { return store.SequenceKey(outputPrefix, n) }

// superfluous are the oldest runs of an order that there is no room for in the history.
func (d *Dispatcher) superfluous(r *orders.Run) []uint64 {
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
func (d *Dispatcher) forget(r orders.Run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), forgetTime)
	defer cancel()
	d.o.Errands.Forget(ctx, idOf(r))
}
