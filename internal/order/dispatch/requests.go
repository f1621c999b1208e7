package dispatch

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order"
)

// View describes an order.
type View struct {
	order.View
	Last *order.Run // its last run; nil if it has none
}

// List returns all orders, sorted by name.
func (d *Dispatcher) List() []View {
	d.mu.Lock()
	now := d.o.Clock()
	var all []View
	for name := range d.orders {
		if v, err := d.engine.Look(name, now, nil); err == nil {
			all = append(all, View{View: v})
		}
	}
	d.mu.Unlock()
	for i := range all {
		all[i].Last = d.history.last(all[i].Order.Name)
	}
	slices.SortFunc(all, func(a, b View) int { return strings.Compare(a.Order.Name, b.Order.Name) })
	return all
}

// Show returns an order. The error is order.ErrUnknown.
func (d *Dispatcher) Show(name string) (View, error) {
	d.mu.Lock()
	v, err := d.engine.Look(name, d.o.Clock(), nil)
	d.mu.Unlock()
	return View{v, d.history.last(name)}, err
}

// Check runs the check of an order, and returns the order with the output of the check.
func (d *Dispatcher) Check(ctx context.Context, name string) (View, []string, error) {
	v, err := d.Show(name)
	if err != nil || v.Order.Gate(order.Condition) == nil {
		return v, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	result := d.o.Checks.Run(ctx, d.checkOf(v.Order))
	d.mu.Lock()
	v.View, err = d.engine.Look(name, d.o.Clock(), &result.Open)
	d.mu.Unlock()
	return v, result.Output, err
}

// Next returns the next times at which an order fires; see order.Engine.
func (d *Dispatcher) Next(name string, n int) ([]time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.engine.Next(name, d.o.Clock(), n)
}

// Run fires an order by hand. It returns the number of the run, or 0 if the run follows the
// one in progress.
func (d *Dispatcher) Run(ctx context.Context, name, by string) (uint64, error) {
	answer := make(asker, 1)
	d.mu.Lock()
	queued, err := d.engine.Ask(name, by, answer, d.o.Clock())
	d.mu.Unlock()
	d.poke()
	if err != nil || queued {
		return 0, err
	}
	select {
	case a := <-answer:
		return a.run, a.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	}
}

// asker receives the answer to a request for a run. It has room for it.
type asker chan asked

// asked is the number of the run, or why it could not be stored.
type asked struct {
	run uint64
	err error
}

// answerAsker answers the request that has led to a decision, if any.
func answerAsker(a order.Action, run uint64, err error) {
	if ask, ok := a.Asker.(asker); ok {
		ask <- asked{run, err}
	}
}

// Wait waits until a run has ended and no attempt follows.
func (d *Dispatcher) Wait(ctx context.Context, n uint64) (order.Run, error) {
	for {
		changed, active := d.history.next(), d.isActive(n)
		r, ok := d.history.get(n)
		switch {
		case !ok:
			return order.Run{}, order.ErrUnknown
		case r.Status.Over() && !active:
			return *r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return *r, context.Cause(ctx)
		case <-d.ctx.Done():
			return *r, context.Cause(d.ctx)
		}
	}
}

// RunWithOutput is a run with its last output.
type RunWithOutput struct {
	order.Run
	Output []string
}

// History returns the last n runs of an order, newest first. The error is order.ErrUnknown.
func (d *Dispatcher) History(ctx context.Context, name string, n int) ([]RunWithOutput, error) {
	numbers := d.history.numbers(name)
	if d.inForce(name) == nil && len(numbers) == 0 {
		return nil, order.ErrUnknown
	}
	slices.Reverse(numbers)
	past := []RunWithOutput{}
	for _, number := range numbers {
		if len(past) == n {
			break
		}
		if p, err := d.One(ctx, number); err == nil {
			past = append(past, p)
		}
	}
	return past, nil
}

// One returns a run. The error is order.ErrUnknown.
func (d *Dispatcher) One(ctx context.Context, number uint64) (RunWithOutput, error) {
	r, ok := d.history.get(number)
	if !ok {
		return RunWithOutput{}, order.ErrUnknown
	}
	p := RunWithOutput{*r, d.history.output(ctx, r)}
	d.mu.Lock()
	var j *job.Job
	if run := d.active[number]; run != nil {
		j = run.job
	}
	d.mu.Unlock()
	if j != nil {
		p.Output, p.StartedAt = j.Output(ctx), j.StartedAt()
	}
	return p, nil
}

// Stop stops the runs of an order and returns how many there were. A run that was to follow
// them is dropped.
func (d *Dispatcher) Stop(name string) int {
	defer d.poke()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine.Withdraw(name)
	n := 0
	for _, run := range d.active {
		if run.order == name {
			run.halt(stoppedRun)
			n++
		}
	}
	return n
}

// Enable sets whether the gates of an order fire it. It returns when that is stored.
func (d *Dispatcher) Enable(ctx context.Context, name string, on bool) error {
	if err := d.writing.lock(ctx); err != nil {
		return err
	}
	defer d.writing.unlock()
	d.mu.Lock()
	err := d.engine.Enable(name, on, d.o.Clock())
	var v order.View
	if err == nil {
		v, err = d.engine.Look(name, d.o.Clock(), nil)
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	defer d.poke()
	return d.save(ctx, []order.Action{{Do: order.Keep, Order: v.Order, State: v.State}})
}
