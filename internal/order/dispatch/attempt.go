package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
)

// sent reports whether a run of a predecessor was a command, whatever the order is now.
func (d *Dispatcher) sent(r order.Run) bool {
	all, err := d.o.Jobs.List(d.ctx)
	if err != nil {
		return true // which is found out in the attempt
	}
	_, found := all[idOf(r)]
	return found
}

// attempt runs the command once, and notes how it ended.
func (d *Dispatcher) attempt(ctx context.Context, run *drive, r *order.Run, o *spec.Order,
	old bool) (output []string) {
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
	return d.runJob(ctx, run, r, o, old)
}

// stopped notes that a run is to end before it began, if it is.
func (d *Dispatcher) stopped(run *drive, r *order.Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if run.stop != "" {
		r.Status, r.Error, r.EndedAt = order.Stopped, run.stop+" before it began", d.o.Clock().Wall.Round(0)
	}
}

// runJob starts the command, or finds it, and waits for its end.
func (d *Dispatcher) runJob(ctx context.Context, run *drive, r *order.Run, o *spec.Order,
	old bool) (output []string) {
	e, err := d.send(ctx, run, r, o, old)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Status, r.Error, r.EndedAt = order.Interrupted, err.Error(), d.o.Clock().Wall.Round(0)
		return nil
	case err != nil:
		d.stopped(run, r)
		return nil
	}
	select {
	case <-e.Done():
	case <-d.ctx.Done():
		return nil
	}
	d.mu.Lock()
	run.job = nil
	d.mu.Unlock()
	res := e.Result(d.ctx)
	r.Status = order.Status(res.Outcome)
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
func (d *Dispatcher) send(ctx context.Context, run *drive, r *order.Run, o *spec.Order,
	old bool) (*job.Job, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		e, err := d.sendOnce(ctx, run, r, o, old)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return e, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		d.o.Logger.Warn("a run of an order cannot be started, or found; it is tried again", "run", ID(r.Number),
			"order", r.Order, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// sendOnce starts the command, or finds it. Whoever stops the run meanwhile waits
// for that, so that what was started is stopped.
func (d *Dispatcher) sendOnce(ctx context.Context, run *drive, r *order.Run, o *spec.Order,
	old bool) (*job.Job, error) {
	d.mu.Lock()
	if run.stop != "" && !old {
		d.mu.Unlock()
		return nil, context.Canceled
	}
	run.starting = true
	d.mu.Unlock()
	e, err := d.start(d.ctx, r, o, old)
	if err != nil && ctx.Err() != nil {
		if found, missing := d.o.Jobs.Find(d.ctx, jobOf(r)); missing == nil {
			e, err = found, nil
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	run.starting = false
	if err == nil {
		run.job = e
		if run.stop != "" {
			e.Stop()
		}
	}
	return e, err
}

// jobOf is the job of a run as far as its record tells.
func jobOf(r *order.Run) job.Spec {
	return job.Spec{ID: idOf(*r), Attempt: uint64(r.Attempt), Timeout: r.Timeout}
}

// start starts the command once, or finds it.
func (d *Dispatcher) start(ctx context.Context, r *order.Run, o *spec.Order, old bool) (*job.Job,
	error) {
	j := jobOf(r)
	if old {
		e, err := d.o.Jobs.Find(ctx, j)
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
	return d.o.Jobs.Start(starting, j)
}

// startTime is how long a start may take; it is stopped, and tried again, then.
const startTime = 30 * time.Second

// makeTask makes the task of a run, once.
func (d *Dispatcher) makeTask(ctx context.Context, r *order.Run, o *spec.Order) {
	begin := d.o.Clock().Wall
	r.StartedAt = begin.Round(0)
	if d.o.Task == nil {
		r.Status, r.Error, r.EndedAt = order.Failed, "there are no tasks here", begin.Round(0)
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
		r.Status, r.Task = order.Completed, id
	case ctx.Err() != nil:
		return
	default:
		r.Status, r.Error = order.Failed, short(err.Error())
	}
	r.EndedAt = d.o.Clock().Wall.Round(0)
	r.Duration = max(0, r.EndedAt.Sub(begin))
}
