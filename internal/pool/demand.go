package pool

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Variables in the environment of instances, of checks and of the hooks of pools.
const (
	poolEnv     = proc.EnvPrefix + "POOL"      // the name of the pool
	instanceEnv = proc.EnvPrefix + "INSTANCE"  // the number of the instance
	sizeEnv     = proc.EnvPrefix + "POOL_SIZE" // the wanted number of instances; only for checks and on_boot
)

// InstanceEnviron returns the additional environment of an instance of a pool.
func InstanceEnviron(i spec.Instance) []string {
	if i == (spec.Instance{}) {
		return nil
	}
	return []string{poolEnv + "=" + i.Pool, instanceEnv + "=" + strconv.Itoa(i.Number)}
}

// environ returns the additional environment of checks and hooks of a pool of that size.
func environ(template *spec.Agent, size int) []string {
	return []string{poolEnv + "=" + template.Name, sizeEnv + "=" + strconv.Itoa(size)}
}

// environ returns the additional environment of checks and hooks. Needs mu.
func (c *Controller) environ() []string { return environ(c.template, c.demand.Size(c.template.Pool)) }

// newCheck returns the check of a pool that has one.
func newCheck(template *spec.Agent, user *account.Account, env []string, mark string) Check {
	return Check{
		Argv: template.Pool.Check, Dir: template.Dir, Env: env, Mark: mark, Timeout: template.Pool.CheckTimeout,
		NoNewPrivileges: template.NoNewPrivileges, User: user,
		Paths: landlock.New(template.ReadWritePaths, template.ReadOnlyPaths),
	}
}

// answer is the result of a check.
type answer struct {
	n   int
	err error
}

// check begins a check. It reports false if one runs already or the pool does not run.
func (c *Controller) check(ctx context.Context, answers chan<- answer) bool {
	if c.isRetired() || !c.m.Fleet.Runs(c.path) {
		return false
	}
	c.mu.Lock()
	template := c.template
	c.mu.Unlock()
	user, env, err := c.m.Fleet.Environ(c.path, template)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.checking:
		return false
	case err != nil:
		answers <- answer{err: err}
	case template.Pool.Check == nil:
		answers <- answer{n: 1}
	default:
		check := newCheck(template, user, append(env, c.environ()...), c.m.Socket+" "+c.path)
		c.m.Go(func(context.Context) {
			var a answer // sending it cannot block, since this is the only check
			defer func() { answers <- a }()
			select {
			case <-c.m.cleared:
				a.n, a.err = c.m.Check(ctx, check)
			case <-ctx.Done():
				a.err = context.Cause(ctx)
			}
		})
	}
	c.checking = true
	return true
}

// answered takes the answer of a check. It logs a failure unless the last check failed in the same
// way.
func (c *Controller) answered(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.demand.Problem
	c.demand = c.demand.Answered(a.n, a.err)
	c.checking, c.asked, c.checkedAt = false, true, time.Now()
	c.fresh = c.fresh || a.err == nil && c.template.Pool.Check != nil
	e := event.Event{Path: c.path, Actor: "controller"}
	switch size := c.demand.Size(c.template.Pool); {
	case a.err != nil && (before == nil || before.Error() != a.err.Error()):
		e.Type = event.PoolCheckFailed
		e.Message = fmt.Sprintf("the check of %s has failed, and it keeps its %s: %v", c.path, instances(size), a.err)
		c.m.Append(e.With(map[string]any{"error": a.err.Error(), "size": size}))
	case a.err == nil && before != nil:
		e.Type, e.Message = event.PoolCheckRecovered, fmt.Sprintf("the check of %s answers again: %d", c.path, a.n)
		c.m.Append(e.With(map[string]any{"answer": a.n}))
	}
}

// wantedSize returns the wanted number of instances. Needs mu.
func (c *Controller) wantedSize() int {
	if c.retired {
		return 0
	}
	return c.demand.Size(c.template.Pool)
}

// updateSize returns the wanted number of instances, and logs and stores a change. Needs mu.
func (c *Controller) updateSize() int {
	size := c.wantedSize()
	if size == c.size || c.retired {
		return size
	}
	why := "the minimum, before the first check"
	if c.demand.Known {
		why = fmt.Sprintf("the check says %d, the bounds are %s", c.demand.Asked, bounds(c.template.Pool))
	}
	c.m.Append(event.Event{
		Type: event.PoolScaled, Path: c.path, Actor: "controller",
		Message: fmt.Sprintf("%s wants %s instead of %d: %s", c.path, instances(size), c.size, why),
	}.With(map[string]any{"from": c.size, "to": size, "answer": c.demand.Asked, "answered": c.demand.Known}),
		demandOp(c.path, c.demand))
	c.size = size
	return size
}

// instances returns a number of instances in words.
func instances(n int) string {
	if n == 1 {
		return "1 instance"
	}
	return fmt.Sprintf("%d instances", n)
}

// bounds returns the bounds of a pool in words.
func bounds(p *spec.Pool) string {
	if p.Max < 0 && p.Names == nil {
		return fmt.Sprintf("%d..", p.Min)
	}
	return fmt.Sprintf("%d..%d", p.Min, p.Ceiling())
}
