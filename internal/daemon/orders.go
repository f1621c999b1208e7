package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/task"
)

// Jobs is where the runs of orders have their slots.
func (p Project) Jobs() string { return filepath.Join(p.State, "errands") }

// checkMark is in the environment of the checks of orders; its value names the project.
const checkMark = "COPPICE_CHECK"

// openOrders begins to fire orders, once the tree is launched.
func (c *Controller) openOrders(ctx context.Context) (err error) {
	if c.opts.Jobs == nil {
		return nil
	}
	c.orders, err = dispatch.Open(ctx, dispatch.Options{
		Store: c.opts.Store, Log: c.log, Jobs: c.opts.Jobs, Orders: c.opts.Tree.Orders, Logger: c.opts.Logger,
		Environ: c.orderEnviron, Task: c.orderTask, Held: c.orderHeld(), Paced: func() { notify(c.pauses.look) },
		Mark: checkMark + "=" + wire.Marker(c.opts.Jobs.Dir()),
	})
	if err != nil {
		return fmt.Errorf("orders: %w", err)
	}
	return nil
}

// closeOrders ends what runs, or lets go of it.
func (c *Controller) closeOrders() {
	if c.orders == nil {
		return
	}
	c.ordersOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), proc.DefaultGrace+closeTime)
		defer cancel()
		c.orders.Close(ctx, c.agents.IsDetaching())
		close(c.ordersEnded)
	})
	<-c.ordersEnded
}

// replaceOrders makes others those in force.
func (c *Controller) replaceOrders(all []*spec.Order) {
	if c.orders != nil {
		c.orders.Replace(all)
	}
}

// orderEnviron is the environment of a command that is no agent's.
func (c *Controller) orderEnviron(declared map[string]string) []string {
	env := proc.Environ(declared, proc.Self{Socket: c.opts.Socket})
	kept := env[:0]
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); name != proc.EnvAgent && name != proc.EnvIncarnation {
			kept = append(kept, kv)
		}
	}
	return kept
}

// orderTask makes the task of a run.
func (c *Controller) orderTask(ctx context.Context, key string, t spec.OrderTask) (id string, err error) {
	assignee, err := c.assignee(t.Assignee)
	if err != nil {
		return "", err
	}
	made, fresh, err := c.work.Create(ctx, task.Who{Name: order.PathOf(t.Order)}, task.Draft{
		Title: t.Title, Text: t.Text, Priority: t.Priority, Labels: t.Labels, Pool: t.Pool, Assignee: assignee,
		Ephemeral: true, Origin: "order:" + t.Order, Key: "order-run:" + key,
	})
	if err == nil && fresh {
		c.nudgeOf(made, api.Caller{})
	}
	return made.ID, err
}

// heldFor is how long it counts whether the project is suspended.
const heldFor = time.Second

// orderHeld says why an order must not fire: the project, or its target, is suspended.
func (c *Controller) orderHeld() func(*spec.Order) string {
	var mu sync.Mutex
	var at time.Time
	var project string
	return func(o *spec.Order) string {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) > heldFor {
			project, at = c.projectSuspended(), time.Now()
		}
		if project != "" {
			return "the project is " + project
		}
		if o.Task == nil {
			return ""
		}
		for _, target := range []string{o.Task.Pool, o.Task.Assignee} {
			if path := c.targetOf(target); path != "" && c.Suspended(path) {
				return fmt.Sprintf("%s, which it is for, is suspended or stopped by hand", path)
			}
		}
		return ""
	}
}

// targetOf is the path of a pool or an agent that is called by its path or by
// its name; "" if there is none.
func (c *Controller) targetOf(target string) string {
	f := c.fleet()
	path := c.full(strings.Trim(target, "/"))
	if target == "" || f.Agents[path] != nil || f.Nodes[path] != nil {
		return path
	}
	for p, a := range f.Agents {
		if a.Name == target {
			return p
		}
	}
	for p, n := range f.Nodes {
		if n.Name == target {
			return p
		}
	}
	return ""
}

// ofOrders: the path is that of orders in events, and of no node.
func (c *Controller) ofOrders(path string) bool {
	first, _, _ := strings.Cut(strings.Trim(path, "/"), "/")
	return first == "orders" && !c.fleet().Has(c.rootPath()+"/"+first)
}

// noOrders is the error where orders cannot run.
func (c *Controller) noOrders() error {
	if c.orders == nil {
		return fmt.Errorf("%w: no orders are fired here", api.ErrConflict)
	}
	return nil
}

// orderError translates the errors of orders.
func (c *Controller) orderError(name string, err error) error {
	switch {
	case errors.Is(err, order.ErrUnknown):
		hint := "coppice order ls lists them"
		var names []string
		for _, v := range c.orders.List() {
			names = append(names, v.Order.Name)
		}
		if near := suggest.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return &apiError{fmt.Errorf("there is no order %q; %s", name, hint), api.ErrNotFound}
	case errors.Is(err, order.ErrRunning):
		return fmt.Errorf("%w: order %s is running, and its overlap is skip; coppice order stop ends it",
			api.ErrConflict, name)
	case errors.Is(err, order.ErrCaused), errors.Is(err, order.ErrSuspended), store.Refused(err):
		return &apiError{fmt.Errorf("order %s: %w", name, err), api.ErrConflict}
	}
	return err
}

// Orders is part of api.Orders.
func (c *Controller) Orders(context.Context) ([]api.Order, error) {
	if c.orders == nil {
		return nil, nil
	}
	var all []api.Order
	for _, v := range c.orders.List() {
		all = append(all, orderView(v))
	}
	return all, nil
}

// Order is part of api.Orders.
func (c *Controller) Order(_ context.Context, name string) (api.Order, error) {
	if err := c.noOrders(); err != nil {
		return api.Order{}, err
	}
	v, err := c.orders.Show(name)
	if err != nil {
		return api.Order{}, c.orderError(name, err)
	}
	return orderView(v), nil
}

// CheckOrder is part of api.Orders.
func (c *Controller) CheckOrder(ctx context.Context, name string) (api.Order, error) {
	if err := c.noOrders(); err != nil {
		return api.Order{}, err
	}
	v, said, err := c.orders.Check(ctx, name)
	if err != nil {
		return api.Order{}, c.orderError(name, err)
	}
	o := orderView(v)
	for _, line := range said {
		o.Said = append(o.Said, proc.Plain(line))
	}
	return o, nil
}

// NextOrder is part of api.Orders.
func (c *Controller) NextOrder(_ context.Context, name string, count int) (api.OrderTimes, error) {
	if err := c.noOrders(); err != nil {
		return api.OrderTimes{}, err
	}
	times, err := c.orders.Next(name, count)
	switch {
	case errors.Is(err, order.ErrUnknown):
		return api.OrderTimes{}, c.orderError(name, err)
	case err != nil:
		return api.OrderTimes{}, fmt.Errorf("%w: when order %s fires next is not known: %w", api.ErrConflict, name, err)
	}
	return api.OrderTimes{Times: times}, nil
}

// OrderRuns is part of api.Orders.
func (c *Controller) OrderRuns(ctx context.Context, name string, count int) ([]api.OrderRun, error) {
	if err := c.noOrders(); err != nil {
		return nil, err
	}
	past, err := c.orders.History(ctx, name, count)
	if err != nil {
		return nil, c.orderError(name, err)
	}
	all := []api.OrderRun{}
	for _, p := range past {
		r := orderRun(p.Run)
		r.Output = p.Output
		all = append(all, r)
	}
	return all, nil
}

// OrderRun is part of api.Orders.
func (c *Controller) OrderRun(ctx context.Context, id string, wait bool) (api.OrderRun, error) {
	if err := c.noOrders(); err != nil {
		return api.OrderRun{}, err
	}
	n, err := ledger.ParseID(dispatch.IDPrefix, id)
	if err != nil {
		return api.OrderRun{}, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	if wait {
		if _, err := c.orders.Wait(ctx, n); err != nil && !errors.Is(err, order.ErrUnknown) {
			return api.OrderRun{}, &apiError{err, api.ErrStopping}
		}
	}
	past, err := c.orders.One(ctx, n)
	if err != nil {
		return api.OrderRun{}, &apiError{fmt.Errorf("there is no run %s, or it is no longer kept; coppice "+
			"order history lists them", id), api.ErrNotFound}
	}
	r := orderRun(past.Run)
	r.Output = past.Output
	return r, nil
}

// ActOnOrder is part of api.Orders.
func (c *Controller) ActOnOrder(ctx context.Context, a api.OrderAct) (done api.OrderActed, err error) {
	if err := c.noOrders(); err != nil {
		return done, err
	}
	by := cmp.Or(a.By, "user")
	if name := api.OrderOf(ctx); name != "" {
		by = order.PathOf(name)
	}
	switch a.Action {
	case api.RunOrder:
		var n uint64
		n, err = c.orders.Run(ctx, a.Name, by)
		if done.Queued = err == nil && n == 0; n > 0 {
			done.Run = dispatch.ID(n)
		}
	case api.StopOrder:
		if _, err = c.orders.Show(a.Name); err == nil {
			done.Stopped = c.orders.Stop(a.Name)
		}
	case api.EnableOrder, api.DisableOrder:
		err = c.orders.Enable(ctx, a.Name, a.Action == api.EnableOrder)
	default:
		return done, fmt.Errorf("%w: action is %.100q, expected one of %v", api.ErrInvalid, a.Action,
			api.OrderActions())
	}
	return done, c.orderError(a.Name, err)
}

// orderCounts are the orders in short; nil if there are none.
func (c *Controller) orderCounts() *api.OrderCounts {
	if c.orders == nil {
		return nil
	}
	all := c.orders.List()
	if len(all) == 0 {
		return nil
	}
	counts := &api.OrderCounts{Total: len(all)}
	for _, v := range all {
		counts.Running += v.Running
		if !v.Enabled {
			counts.Disabled++
		}
		if r := v.Last; r != nil && r.Status.Over() && r.Status != order.Completed {
			counts.Failing++
		}
		if next := v.Next; v.Enabled && !next.IsZero() && (counts.NextAt == nil || next.Before(*counts.NextAt)) {
			counts.NextAt, counts.Next = &next, v.Order.Name
		}
	}
	return counts
}

func orderView(v dispatch.View) api.Order {
	o := v.Order
	a := api.Order{
		Name: o.Name, Description: o.Description, Exec: o.Command, Match: "any", Gates: []api.OrderGate{},
		Enabled: v.Enabled, ByHand: string(v.State.ByHand),
		Due: v.Due, Reason: v.Why, Running: v.Running, Pending: v.Pending, Runs: v.State.Runs, Skips: v.State.Skips,
		Skipped: v.State.Skipped, SkippedAt: moment(v.State.SkippedAt), Overlap: o.Overlap.String(),
		CatchUp: o.CatchUp, Timeout: o.Timeout.Seconds(), Retries: o.Retries,
		Dir: o.Dir, Source: o.Source,
	}
	if o.All {
		a.Match = "all"
	}
	if v.Enabled {
		a.NextAt = moment(v.Next)
	}
	if o.Task != nil {
		a.Task, a.Pool = o.Task.Title, o.Task.Pool
	}
	for _, g := range v.Gates {
		a.Gates = append(a.Gates, api.OrderGate{Kind: g.Gate.Kind.String(), Text: g.Gate.String(), Open: g.Open,
			Reason: g.Reason, NextAt: moment(g.Next)})
	}
	if v.Last != nil {
		last := orderRun(*v.Last)
		a.Last = &last
	}
	return a
}

func orderRun(r order.Run) api.OrderRun {
	a := api.OrderRun{
		ID: dispatch.ID(r.Number), Order: r.Order, Status: string(r.Status), Reason: r.Reason, By: r.By,
		Attempt: r.Attempt, FiredAt: r.FiredAt,
		StartedAt: moment(r.StartedAt), EndedAt: moment(r.EndedAt), RetryAt: moment(r.RetryAt),
		Duration: r.Duration.Seconds(),
		Code:     r.Code, Signal: r.Signal, Error: r.Error, Task: r.Task,
	}
	if r.Events != nil {
		a.Events = r.Events.Count
	}
	return a
}

// moment is a time for JSON; nil if there is none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.Round(0)
	return &t
}

// endJobs stops the runs of orders of a daemon that was killed, and counts
// them. The next one finds them as they are then.
func endJobs(ctx context.Context, p Project, logger *slog.Logger) (stopped int, err error) {
	if _, err := os.Stat(p.Jobs()); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	r, err := job.Open(job.Options{Dir: p.Jobs(), Logger: logger})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	all, err := r.List(ctx)
	for _, lives := range all {
		if lives {
			stopped++
		}
	}
	return stopped, errors.Join(err, r.Halt(ctx))
}
