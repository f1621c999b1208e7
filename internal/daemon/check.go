package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// Variables of pools: of instances, of checks and of the hooks of pools.
const (
	poolEnv     = proc.EnvPrefix + "POOL"      // the name of the pool
	instanceEnv = proc.EnvPrefix + "INSTANCE"  // the number of the instance
	poolSizeEnv = proc.EnvPrefix + "POOL_SIZE" // how many instances there should be; of checks and on_boot
)

// instanceEnviron is what an instance of a pool is told beside the rest.
func instanceEnviron(i spec.Instance) []string {
	if i == (spec.Instance{}) {
		return nil
	}
	return []string{poolEnv + "=" + i.Pool, instanceEnv + "=" + strconv.Itoa(i.Number)}
}

// answer is what a check has said.
type answer struct {
	n   int
	err error
}

// interval is the time from one check to the next.
func (w *crew) interval() time.Duration {
	if d := w.c.fleet().tree.Patrol.Interval; d > 0 {
		return d
	}
	return spec.DefaultPatrol().Interval
}

// environ is that of what runs for the pool as a whole.
func (w *crew) environ(as identity) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return poolEnviron(w.template, as, w.path, w.demand.Size(w.template.Pool))
}

// poolEnviron is the environment of what runs for a pool of which there should be so many instances.
func poolEnviron(template *spec.Agent, as identity, path string, size int) []string {
	env, _ := as.environ(template, proc.Self{Agent: path})
	return append(env, poolEnv+"="+template.Name, poolSizeEnv+"="+strconv.Itoa(size))
}

// checkOf is the check of a pool that has one.
func checkOf(template *spec.Agent, as identity, env []string, mark string) pool.Check {
	return pool.Check{
		Argv: template.Pool.Check, Dir: template.Dir, Env: env, Mark: mark, Timeout: template.Pool.CheckTimeout,
		NoNewPrivileges: template.NoNewPrivileges, User: as.user,
	}
}

// boot runs on_boot, before the first instance is added.
func (w *crew) boot(ctx context.Context) {
	w.mu.Lock()
	template := w.template
	w.mu.Unlock()
	l := &life{c: w.c, agent: template, self: supervisor.Self{Path: w.path}}
	if as, err := w.c.identity(template); err != nil {
		w.c.opts.Logger.Error("cannot run on_boot", "path", w.path, "error", err)
	} else {
		l.as, l.env = as, w.environ(as)
		l.run(ctx, "on_boot", template.Pool.OnBoot)
	}
	w.mu.Lock()
	w.booted = true
	w.mu.Unlock()
}

// ask begins a check. It reports false where that is of no use now: one runs
// already, or the pool does not.
func (w *crew) ask(ctx context.Context, answers chan<- answer) bool {
	if w.isRetired() || w.runs() == nil {
		return false
	}
	w.mu.Lock()
	template := w.template
	w.mu.Unlock()
	as, err := w.c.identity(template)
	env := w.environ(as)
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.template
	switch {
	case w.checking:
		return false
	case err != nil:
		answers <- answer{err: err}
	case t.Pool.Check == nil:
		answers <- answer{n: 1}
	default:
		check := checkOf(t, as, env, w.c.opts.Socket+" "+w.path)
		w.c.background.run(func(context.Context) {
			var a answer // for which there is room, as this is the only check
			defer func() { answers <- a }()
			select {
			case <-w.c.crews.cleared:
				a.n, a.err = w.c.crews.check(ctx, check)
			case <-ctx.Done():
				a.err = context.Cause(ctx)
			}
		})
	}
	w.checking = true
	return true
}

// answered takes what a check has said. Of failures, each one that is not as
// the last one was is told.
func (w *crew) answered(a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.demand.Problem
	w.demand = w.demand.Answered(a.n, a.err)
	w.checking, w.asked, w.checkedAt = false, true, time.Now()
	w.fresh = w.fresh || a.err == nil && w.template.Pool.Check != nil
	e := event.Event{Path: w.path, Actor: "controller"}
	switch {
	case a.err != nil && (before == nil || before.Error() != a.err.Error()):
		e.Type = event.PoolCheckFailed
		e.Message = fmt.Sprintf("the check of %s has failed, and it keeps its %s: %v", w.path, instances(w.demand.Size(w.template.Pool)), a.err)
		w.c.log.Append(e.With(map[string]any{"error": a.err.Error(), "size": w.demand.Size(w.template.Pool)}))
	case a.err == nil && before != nil:
		e.Type, e.Message = event.PoolCheckRecovered, fmt.Sprintf("the check of %s answers again: %d", w.path, a.n)
		w.c.log.Append(e.With(map[string]any{"answer": a.n}))
	}
}

func instances(n int) string {
	if n == 1 {
		return "1 instance"
	}
	return fmt.Sprintf("%d instances", n)
}

// settleSize tells and keeps how many instances there should be, if that is not
// what it was. Needs mu.
func (w *crew) settleSize() int {
	size := w.wantedSize()
	if size == w.size || w.retired {
		return size
	}
	why := "the minimum, before the first check"
	if w.demand.Known {
		why = fmt.Sprintf("the check says %d, the bounds are %s", w.demand.Asked, bounds(w.template.Pool))
	}
	w.c.log.Append(event.Event{
		Type: event.PoolScaled, Path: w.path, Actor: "controller",
		Message: fmt.Sprintf("%s wants %s instead of %d: %s", w.path, instances(size), w.size, why),
	}.With(map[string]any{"from": w.size, "to": size, "answer": w.demand.Asked, "answered": w.demand.Known}), demandOp(w.path, w.demand))
	w.size = size
	return size
}

// bounds are those of a pool, for people.
func bounds(p *spec.Pool) string {
	if p.Max < 0 && p.Names == nil {
		return fmt.Sprintf("%d..", p.Min)
	}
	return fmt.Sprintf("%d..%d", p.Min, p.Ceiling())
}

// poolPrefix is where is kept what the checks of pools have said.
const poolPrefix = "pools"

// savedDemand is the last good answer of the check of a pool.
type savedDemand struct {
	Path  string `json:"path"`
	Asked int    `json:"asked"`
	Known bool   `json:"known"`
}

func demandOp(path string, d pool.Demand) store.Op {
	value, _ := json.Marshal(savedDemand{path, d.Asked, d.Known}) // strings and numbers
	return store.Op{Kind: store.Put, Key: poolPrefix + "/" + store.PathKey(path), Value: value}
}

// endChecks ends the checks of pools and orders of a project that has no daemon.
func endChecks(ctx context.Context, p Project) error {
	socket, err := api.SocketPath(p.Dir)
	if err != nil {
		return err
	}
	var orders proc.Sweeper
	err = orders.Sweep(ctx, checkMark+"="+wire.Marker(p.Errands()))
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, pool.NewRunner(socket).Clear(ctx))
}
