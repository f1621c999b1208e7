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

// hasJob reports whether an earlier dispatcher has started a command for the run, even if the order
// has changed since.
func (r *activeRun) hasJob() bool {
	all, err := r.d.o.Jobs.List(r.d.ctx)
	if err != nil {
		return true // the attempt will find out
	}
	_, found := all[jobID(&r.record)]
	return found
}

// attempt runs the command once when a slot is free, and records the result. o is nil if the order was
// removed.
func (r *activeRun) attempt(ctx context.Context, o *spec.Order) (output []string) {
	if r.noteStop(); r.record.Status.Over() && !r.old {
		return nil
	}
	select {
	case r.d.slots <- struct{}{}:
		defer func() { <-r.d.slots }()
	default:
		if r.old {
			break // it may run already, so it needs no slot
		}
		select {
		case r.d.slots <- struct{}{}:
			defer func() { <-r.d.slots }()
		case <-ctx.Done():
			r.noteStop()
			return nil
		}
	}
	return r.runJob(ctx, o)
}

// runJob starts or finds the command, and waits for its end.
func (r *activeRun) runJob(ctx context.Context, o *spec.Order) (output []string) {
	d, rec := r.d, &r.record
	j, err := r.startJob(ctx, o)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		rec.Status, rec.Error, rec.EndedAt = order.Interrupted, err.Error(), d.o.Clock().Wall.Round(0)
		return nil
	case err != nil:
		r.noteStop()
		return nil
	}
	select {
	case <-j.Done():
	case <-d.ctx.Done():
		return nil
	}
	d.mu.Lock()
	r.job = nil
	d.mu.Unlock()
	res := j.Result(d.ctx)
	rec.Status = order.Status(res.Outcome)
	rec.StartedAt, rec.EndedAt = res.StartedAt.Round(0), res.EndedAt.Round(0)
	if !res.StartedAt.IsZero() {
		rec.Duration = max(0, res.EndedAt.Sub(res.StartedAt))
	}
	if res.Code >= 0 {
		rec.Code = &res.Code
	}
	rec.Signal = res.Signal
	if res.Err != nil {
		rec.Error = short(res.Err.Error())
	}
	return res.Output
}

// short bounds the text of an error that is stored.
func short(text string) string {
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// startJob starts or finds the command, and retries until it is known whether it runs. The error is
// fs.ErrNotExist if nothing is left of the command, which may have run.
func (r *activeRun) startJob(ctx context.Context, o *spec.Order) (*job.Job, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		j, err := r.tryStartJob(ctx, o)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return j, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r.d.o.Logger.Warn("cannot start or find the run of an order; trying again", "run", ID(r.record.Number),
			"order", r.order, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryStartJob starts or finds the command. A stop of the run meanwhile waits for the start
// to finish, so that the command is stopped.
func (r *activeRun) tryStartJob(ctx context.Context, o *spec.Order) (*job.Job, error) {
	d := r.d
	d.mu.Lock()
	if r.stop != "" && !r.old {
		d.mu.Unlock()
		return nil, context.Canceled
	}
	r.starting = true
	d.mu.Unlock()
	j, err := r.startOrFind(d.ctx, o)
	if err != nil && ctx.Err() != nil {
		if found, missing := d.o.Jobs.Find(d.ctx, r.jobSpec()); missing == nil {
			j, err = found, nil
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.starting = false
	if err == nil {
		r.job = j
		if r.stop != "" {
			j.Stop()
		}
	}
	return j, err
}

// jobSpec returns the part of the job that follows from the record of the run.
func (r *activeRun) jobSpec() job.Spec {
	return job.Spec{ID: jobID(&r.record), Attempt: uint64(r.record.Attempt), Timeout: r.record.Timeout}
}

// startTimeout bounds a start; the command is stopped then, and started again.
const startTimeout = 30 * time.Second

// startOrFind finds the command if an earlier dispatcher may have started it, and starts it
// otherwise.
func (r *activeRun) startOrFind(ctx context.Context, o *spec.Order) (*job.Job, error) {
	j := r.jobSpec()
	if r.old {
		found, err := r.d.o.Jobs.Find(ctx, j)
		if !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
		// It was recorded and not started, unless the machine was booted since, which may
		// have lost what the command left.
		if r.record.Boot != r.d.o.Clock().Boot || o == nil {
			return nil, fmt.Errorf("nothing is left of it: %w", fs.ErrNotExist)
		}
	}
	if o == nil {
		return nil, fmt.Errorf("the order is no longer in the file: %w", fs.ErrNotExist)
	}
	j.Argv, j.Dir = o.Command, o.Dir
	events, err := r.readEvents(ctx)
	if err != nil {
		return nil, err
	}
	j.Env, j.Input = r.environ(o, events), events
	// A start that times out is stopped. The end of this daemon does not stop it: the run
	// goes on for the next one.
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	return r.d.o.Jobs.Start(starting, j)
}

// createTask creates the task of the run, once.
func (r *activeRun) createTask(ctx context.Context, o *spec.Order) {
	d, rec := r.d, &r.record
	begin := d.o.Clock().Wall
	rec.StartedAt = begin.Round(0)
	if d.o.Task == nil {
		rec.Status, rec.Error, rec.EndedAt = order.Failed, "tasks are not available", begin.Round(0)
		return
	}
	t := *o.Task
	t.Order = o.Name
	if events, err := r.readEvents(ctx); err == nil && len(events) > 0 {
		const most = 64 << 10
		if len(events) > most {
			events = append(events[:bytes.LastIndexByte(events[:most], '\n')+1], "…\n"...)
		}
		t.Text = strings.TrimLeft(t.Text+"\n\nEvents:\n\n"+string(events), "\n")
	}
	id, err := d.o.Task(ctx, ID(rec.Number), t)
	switch {
	case err == nil:
		rec.Status, rec.Task = order.Completed, id
	case ctx.Err() != nil:
		return
	default:
		rec.Status, rec.Error = order.Failed, short(err.Error())
	}
	rec.EndedAt = d.o.Clock().Wall.Round(0)
	rec.Duration = max(0, rec.EndedAt.Sub(begin))
}
