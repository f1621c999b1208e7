package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

const (
	envCheck  = "COPPICE_ORDER_CHECK="
	sweepTime = 5 * time.Second // for what a check has left
)

// checksAtOnce is how many checks run at the same time.
const checksAtOnce = 8

// sweep ends the checks that a predecessor has left behind when it was killed.
func (d *Dispatcher) sweep() {
	defer close(d.swept)
	if d.o.Mark == "" {
		return
	}
	if err := d.sweeper.Sweep(d.ctx, d.o.Mark); err != nil && d.ctx.Err() == nil {
		d.o.Logger.Debug("checks of the last daemon may still run", "error", err)
	}
}

// check runs the check of an order, and tells the engine what it said.
func (d *Dispatcher) check(o *spec.Order) {
	ok := false
	select {
	case d.tries <- struct{}{}:
		ok, _ = d.try(d.ctx, o)
		<-d.tries
	case <-d.ctx.Done():
		return
	}
	d.mu.Lock()
	d.engine.Checked(o.Name, ok, d.o.Clock())
	d.mu.Unlock()
	d.Poke()
}

// try runs the check of an order; last is what it wrote.
func (d *Dispatcher) try(ctx context.Context, o *spec.Order) (ok bool, last []string) {
	g := o.Gate(order.Condition)
	if g == nil {
		return false, nil
	}
	select {
	case <-d.swept:
	case <-ctx.Done():
		return false, nil
	}
	env := append(d.o.Environ(o.Env), envOrder+"="+o.Name)
	if d.o.Mark != "" {
		one := fmt.Sprintf("%s%s.%d", envCheck, d.o.Mark, d.checks.Add(1))
		env = append(env, d.o.Mark, one)
		defer func() { // what has left the group of the check
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTime)
			defer cancel()
			d.sweeper.Sweep(ctx, one)
		}()
	}
	p, err := proc.Start(proc.Command{Argv: g.Check, Dir: o.Dir, Env: env}, proc.Output{})
	if err != nil {
		return false, []string{err.Error()}
	}
	limit := time.NewTimer(g.Limit)
	defer limit.Stop()
	select {
	case <-p.Done():
		<-p.Drained()
		return p.Exit().Kind == supervisor.Normal, p.LastOutput()
	case <-limit.C:
	case <-ctx.Done():
	case <-d.ctx.Done():
	}
	p.Kill()
	<-p.Done()
	<-p.Drained()
	return false, p.LastOutput()
}
