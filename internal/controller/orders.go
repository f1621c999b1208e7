package controller

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/task"
)

// orderHost is the part of a controller that orders use.
type orderHost struct{ c *Controller }

// openOrders starts to fire orders, once the tree is launched.
func (c *Controller) openOrders(ctx context.Context) (err error) {
	host := orderHost{c}
	c.orders, err = dispatch.Open(ctx, dispatch.Options{
		Store: c.opts.Store, Log: c.log, Jobs: c.opts.Jobs, Checks: c.checks, Orders: c.opts.Tree.Orders,
		Logger:  c.opts.Logger,
		Environ: host.environ, Span: c.traces.OrderEnviron, Task: host.submit, Held: host.held,
		Paced: func() { wake(c.lasting.look) },
	})
	if err != nil {
		return fmt.Errorf("orders: %w", err)
	}
	return nil
}

// closeOrders stops the runs of orders, or leaves them to the next daemon.
func (c *Controller) closeOrders() {
	ctx, cancel := context.WithTimeout(context.Background(), proc.DefaultGrace+closeTime)
	defer cancel()
	c.orders.Close(ctx, c.agents.IsDetaching())
}

// environ returns the environment of a command that belongs to no agent.
func (h orderHost) environ(declared map[string]string) []string {
	env := proc.Environ(declared, proc.Self{Socket: h.c.opts.Socket})
	kept := env[:0]
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); name != proc.EnvAgent && name != proc.EnvIncarnation {
			kept = append(kept, kv)
		}
	}
	return kept
}

// submit creates the task of a run.
func (h orderHost) submit(ctx context.Context, key string, t spec.OrderTask) (string, error) {
	made, err := h.c.work.Submit(ctx, task.Actor{Name: order.PathOf(t.Order)}, task.Draft{
		Title: t.Title, Text: t.Text, Priority: t.Priority, Labels: t.Labels, Pool: t.Pool, Assignee: t.Assignee,
		Ephemeral: true, Origin: "order:" + t.Order, Key: "order-run:" + key,
	})
	return made.ID, err
}

// held tells why an order must not fire: the project or the target of the order is suspended.
func (h orderHost) held(o *spec.Order) string {
	if project := h.c.control.ProjectSuspended(); project != "" {
		return "the project is " + project
	}
	if o.Task == nil {
		return ""
	}
	for _, target := range []string{o.Task.Pool, o.Task.Assignee} {
		if path := h.target(target); path != "" && h.c.control.Suspended(path) {
			return fmt.Sprintf("%s, which it is for, is suspended or stopped by hand", path)
		}
	}
	return ""
}

// target returns the path of a pool or an agent for its path or its name; "" if there is
// none.
func (h orderHost) target(target string) string {
	f := h.c.fleet()
	path := h.c.fleet().Resolve(strings.Trim(target, "/"))
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
