package dispatch

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order"
)

// View is what is known of an order.
type View struct {
	order.View
	Last *order.Run // its last run; nil if it has none
}

// List are all orders, by name.
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
		all[i].Last = d.last(all[i].Order.Name)
	}
	slices.SortFunc(all, func(a, b View) int {
		if a.Order.Name < b.Order.Name {
			return -1
		}
		return 1
	})
	return all
}

// Show is one order. order.ErrUnknown.
func (d *Dispatcher) Show(name string) (View, error) {
	d.mu.Lock()
	v, err := d.engine.Look(name, d.o.Clock(), nil)
	d.mu.Unlock()
	return View{v, d.last(name)}, err
}

// Check says whether an order is due, and why; its check is run for that.
func (d *Dispatcher) Check(ctx context.Context, name string) (View, []string, error) {
	v, err := d.Show(name)
	if err != nil || v.Order.Gate(order.Condition) == nil {
		return v, nil, err
	}
	ok, said := d.try(ctx, v.Order)
	d.mu.Lock()
	v.View, err = d.engine.Look(name, d.o.Clock(), &ok)
	d.mu.Unlock()
	return v, said, err
}

// Next are the next times at which an order fires; see order.Engine.
func (d *Dispatcher) Next(name string, n int) ([]time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.engine.Next(name, d.o.Clock(), n)
}

// Run fires an order by hand. It returns the number of the run, 0 if it follows on one that goes on.
func (d *Dispatcher) Run(ctx context.Context, name, by string) (uint64, error) {
	told := make(asker, 1)
	d.mu.Lock()
	queued, err := d.engine.Ask(name, by, told, d.o.Clock())
	d.mu.Unlock()
	d.Poke()
	if err != nil || queued {
		return 0, err
	}
	select {
	case a := <-told:
		return a.run, a.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	}
}

// asker is who waits for the number of a run that he has asked for. It has room for the answer.
type asker chan asked

// asked is the answer: the run, or why it could not be written down.
type asked struct {
	run uint64
	err error
}

// answer tells who has asked for a run.
func answer(a order.Action, run uint64, err error) {
	if told, ok := a.Asker.(asker); ok {
		told <- asked{run, err}
	}
}

func (d *Dispatcher) newest(name string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if all := d.byOrder[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return 0
}

func (d *Dispatcher) last(name string) *order.Run {
	n := d.newest(name)
	if n == 0 {
		return nil
	}
	r, _ := d.get(n)
	return r
}

func (d *Dispatcher) get(n uint64) (*order.Run, bool) {
	var r *order.Run
	d.runs.View(func() {
		if found := d.runs.Get(n); found != nil {
			copied := *found
			r = &copied
		}
	})
	return r, r != nil
}

// Wait waits until a run has ended for good.
func (d *Dispatcher) Wait(ctx context.Context, n uint64) (order.Run, error) {
	for {
		d.mu.Lock()
		moved, active := d.moved, d.active[n] != nil
		d.mu.Unlock()
		r, ok := d.get(n)
		switch {
		case !ok:
			return order.Run{}, order.ErrUnknown
		case r.Status.Over() && !active:
			return *r, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return *r, context.Cause(ctx)
		case <-d.ctx.Done():
			return *r, context.Cause(d.ctx)
		}
	}
}

// Past is a run with the last lines of its output.
type Past struct {
	order.Run
	Output []string
}

// History are the last runs of an order, the newest first. order.ErrUnknown.
func (d *Dispatcher) History(ctx context.Context, name string, n int) ([]Past, error) {
	d.mu.Lock()
	_, known := d.orders[name]
	numbers := slices.Clone(d.byOrder[name])
	d.mu.Unlock()
	if !known && len(numbers) == 0 {
		return nil, order.ErrUnknown
	}
	slices.Reverse(numbers)
	past := []Past{}
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

// One is one run. order.ErrUnknown.
func (d *Dispatcher) One(ctx context.Context, number uint64) (Past, error) {
	r, ok := d.get(number)
	if !ok {
		return Past{}, order.ErrUnknown
	}
	p := Past{Run: *r}
	if records, _, err := d.o.Store.Snapshot(ctx, outputKey(number)); err == nil && len(records) > 0 {
		var out output
		if json.Unmarshal(records[0].Value, &out) == nil && (out.Attempt == r.Attempt || !r.Status.Over()) {
			p.Output = out.Lines
		}
	}
	d.mu.Lock()
	var e *job.Job
	if run := d.active[number]; run != nil {
		e = run.job
	}
	d.mu.Unlock()
	if e != nil {
		p.Output, p.StartedAt = e.Output(ctx), e.StartedAt()
	}
	return p, nil
}

// Stop ends the runs of an order that go on, and returns how many. Who wanted one
// more after that, does no longer.
func (d *Dispatcher) Stop(name string) int {
	defer d.Poke()
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

// Enable lets the gates of an order fire it, or not. It is durable when it returns.
func (d *Dispatcher) Enable(ctx context.Context, name string, on bool) error {
	if err := d.writes.lock(ctx); err != nil {
		return err
	}
	defer d.writes.unlock()
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
	defer d.Poke()
	return d.save(ctx, []order.Action{{Do: order.Keep, Order: v.Order, State: v.State}})
}
