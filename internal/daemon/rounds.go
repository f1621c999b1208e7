package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/supervisor"
)

// rounds compares what is with what is wanted, now and then and whenever
// something happens, and has done what package patrol says. It changes the tree
// by calls of the supervisors only, and waits for none of them: what takes time
// is done beside the rounds, which leave alone what is being done.
type rounds struct {
	c     *Controller
	kicks chan struct{}
	turns chan struct{} // of starts

	mu     sync.Mutex
	busy   map[string]bool            // paths at which something is being done
	starts map[string]bool            // paths at which something is being started; that may be ended meanwhile
	delays map[string]reconcile.Delay // what waits since the last round
	news   bool                       // something has happened since the last round
	tries  map[string]try             // what was done in the rounds before, and is planned again
	calm   chan struct{}              // closed when a round has found nothing to do; nil if the last one did
	due    time.Time                  // of the next round, if nothing happens before
	drifts map[string]restartTime     // what was done about agents that have drifted, since the last reload
}

// try is what was done about a path, as often in a row as it was planned, and to no effect.
type try struct {
	kind  reconcile.Kind
	times int
	ended time.Time // zero while it is being done
}

// firstRetry is how long what had no effect is not done again. What does not get
// anywhere in some tries waits twice as long each time, and as long as from one
// round to the next at most.
const (
	firstRetry = 10 * time.Millisecond
	someTries  = 50
)

// Bounds of the pause between two rounds, so that even a fleet that never rests
// leaves most of the time to others.
const (
	shortestPause = time.Millisecond
	longestPause  = 250 * time.Millisecond
)

func newRounds(c *Controller) *rounds {
	return &rounds{
		c: c, kicks: make(chan struct{}, 1), turns: make(chan struct{}, max(1, c.fleet().Patrol.Starts)),
		busy: make(map[string]bool), starts: make(map[string]bool), delays: make(map[string]reconcile.Delay),
		tries: make(map[string]try), calm: make(chan struct{}),
		drifts: make(map[string]restartTime),
	}
}

// kick has a round made soon: something has happened.
func (r *rounds) kick() {
	r.mu.Lock()
	r.news = true
	r.mu.Unlock()
	r.again()
}

// again has a round made soon.
func (r *rounds) again() {
	r.mu.Lock()
	if r.calm == nil {
		r.calm = make(chan struct{})
	}
	r.mu.Unlock()
	select {
	case r.kicks <- struct{}{}:
	default:
	}
}

// settled waits until a round has found nothing to do, and nothing is being done.
func (r *rounds) settled(ctx context.Context) error {
	r.mu.Lock()
	calm := r.calm
	r.mu.Unlock()
	if calm == nil {
		return nil
	}
	select {
	case <-calm:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.c.ended:
		return supervisor.ErrStopping
	}
}

// Patrol is part of api.Patrols.
func (c *Controller) Patrol(ctx context.Context, dry bool) (api.Round, error) {
	select {
	case <-c.down:
		return api.Round{}, api.ErrStopping
	default:
	}
	look, cancel := context.WithTimeout(ctx, lookPatience)
	c.seek(look)
	c.hashes.Await(look, c.fleet().Files)
	cancel()
	res := c.patrols.plan()
	if !dry {
		c.patrols.kick()
		c.pools.CheckAll()
	}
	round := shownRound(res)
	round.Pools = c.pools.All()
	return round, nil
}

// shownRound is what there is to do, as the API says it.
func shownRound(res reconcile.Result) api.Round {
	r := api.Round{Actions: []api.RoundAction{}, Delays: []api.RoundDelay{}, Pools: []api.PoolAt{}}
	for _, a := range res.Actions {
		r.Actions = append(r.Actions, api.RoundAction{Action: a.Kind.String(), Path: a.Path, Cause: a.Cause.String(),
			Fields: a.Fields, Reason: a.Reason})
	}
	for _, d := range res.Delays {
		shown := api.RoundDelay{Path: d.Path, For: d.For, Cause: d.Cause.String()}
		if !d.Until.IsZero() {
			shown.Until = &d.Until
		}
		r.Delays = append(r.Delays, shown)
	}
	return r
}

// run makes rounds until ctx ends.
func (r *rounds) run(ctx context.Context) {
	for {
		begun := time.Now()
		next := r.round(ctx)
		took := time.Since(begun)
		select {
		case <-time.After(max(shortestPause, min(took, longestPause))):
		case <-ctx.Done():
			return
		}
		wait := r.c.fleet().Patrol.Interval
		if !next.IsZero() {
			wait = min(wait, max(0, time.Until(next)))
		}
		r.mu.Lock()
		r.due = time.Now().Add(wait)
		r.mu.Unlock()
		t := time.NewTimer(wait)
		select {
		case <-r.kicks:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		t.Stop()
	}
}

// plan is what has to be done now.
func (r *rounds) plan() reconcile.Result {
	r.c.applying.Lock() // what is wanted and what supervisors know of it belong together
	defer r.c.applying.Unlock()
	f := r.c.fleet()
	r.c.hashes.Refresh(f.Files)
	r.mu.Lock()
	// before anything is observed: what ends now is seen by the next round
	busy, starts := maps.Clone(r.busy), maps.Clone(r.starts)
	r.mu.Unlock()
	observed := r.c.observed(f)
	return reconcile.Plan(r.c.desired(f), observed,
		reconcile.InFlight{Busy: busy, Starting: starts, Before: r.c.partings(f, observed)}, time.Now())
}

// round plans, and begins what was planned. It returns when there may be more to do.
func (r *rounds) round(ctx context.Context) time.Time {
	select {
	case <-r.c.down:
		return time.Time{}
	default:
	}
	r.c.lookForStrangers()
	r.mu.Lock()
	news := r.news
	r.news = false
	r.mu.Unlock()
	res := r.plan()
	r.c.restarts.DropOvertaken(r.c.agents.Session, r.isBusy)
	r.c.hashes.Save()
	notify(r.c.pauses.look)
	r.mu.Lock()
	told := r.delays
	r.delays = make(map[string]reconcile.Delay, len(res.Delays))
	for _, d := range res.Delays {
		r.delays[d.Path] = d
	}
	r.patient(&res, news)
	for _, a := range res.Actions {
		r.doing(a)[a.Path] = true
	}
	if len(r.busy) == 0 && len(r.starts) == 0 && r.calm != nil && len(r.kicks) == 0 {
		close(r.calm)
		r.calm = nil
	}
	r.mu.Unlock()
	for _, d := range res.Delays {
		if was, ok := told[d.Path]; !d.Until.IsZero() && (!ok || was.Until.IsZero()) {
			r.c.held(d)
		}
	}
	for _, a := range res.Actions {
		r.c.background.run(func(ctx context.Context) {
			defer r.over(a.Path, r.doing(a))
			r.do(ctx, a)
		})
	}
	return res.Next
}

// patient leaves out what was done right before, and to no effect, until
// something has happened or some time has passed: else there would be one round
// after the other. Needs mu.
func (r *rounds) patient(res *reconcile.Result, news bool) {
	now, most := time.Now(), r.c.fleet().Patrol.Interval
	planned := make(map[string]bool, len(res.Actions))
	due := res.Actions[:0]
	for _, a := range res.Actions {
		planned[a.Path] = true
		t := r.tries[a.Path]
		if t.kind != a.Kind || t.ended.IsZero() {
			t = try{kind: a.Kind}
		}
		if t.times > 0 {
			at := t.ended.Add(min(firstRetry<<min(max(0, t.times-someTries), 20), most))
			if at.After(now) && !news {
				if res.Next.IsZero() || at.Before(res.Next) {
					res.Next = at
				}
				continue
			}
		}
		t.times, t.ended = t.times+1, time.Time{}
		r.tries[a.Path] = t
		due = append(due, a)
	}
	res.Actions = due
	maps.DeleteFunc(r.tries, func(path string, _ try) bool {
		return !planned[path] && !r.busy[path] &&
			!r.starts[path]
	})
}

func (r *rounds) isBusy(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy[path] || r.starts[path]
}

// doing is where it is noted that an action is being carried out.
func (r *rounds) doing(a reconcile.Action) map[string]bool {
	if a.Kind == reconcile.Start {
		return r.starts
	}
	return r.busy
}

// over: what was being done at a path is done.
func (r *rounds) over(path string, doing map[string]bool) {
	r.mu.Lock()
	delete(doing, path)
	if t, ok := r.tries[path]; ok {
		t.ended = time.Now()
		r.tries[path] = t
	}
	r.mu.Unlock()
	r.again()
}

// claim keeps the rounds away from paths that somebody else takes care of. Needs applying.
func (r *rounds) claim(paths []string) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, path := range paths {
		r.busy[path] = true
	}
	return func() {
		for _, path := range paths {
			r.over(path, r.busy)
		}
	}
}

// waits is what an agent waits for, since the last round.
func (r *rounds) waits(path string) (reconcile.Delay, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.delays[path]
	return d, ok
}

// do does what was planned.
func (r *rounds) do(ctx context.Context, a reconcile.Action) {
	c := r.c
	switch a.Kind {
	case reconcile.Stop:
		if c.supervised(a.Path) {
			c.withdraw(ctx, a.Path)
		} else {
			c.expel(ctx, a.Path)
		}
	case reconcile.Suspend:
		c.suspended(ctx, a.Path)
	case reconcile.Start:
		select {
		case r.turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-r.turns }()
		if !a.Adopt && c.suspendedBy(c.fleet(), a.Path) != "" {
			return // since it was planned
		}
		c.ensureNode(ctx, a.Path)
	case reconcile.End:
		c.health.FailIdle(a.Path)
	case reconcile.Release:
		c.release(a)
	case reconcile.Renew, reconcile.Drain:
		if a.Cause == reconcile.Requested {
			c.restarts.Perform(ctx, a.Path)
			return
		}
		c.replaced(ctx, a)
	}
}

// hasEnded reports whether an incarnation has ended by itself, which its supervisor
// may not know yet: above all one that ended while there was no controller.
func (c *Controller) hasEnded(path string, incarnation uint64) bool {
	s := c.live(path)
	if s == nil {
		return false
	}
	select {
	case <-s.Done():
		return s.Observe().Incarnation == incarnation
	default:
		return false
	}
}

// suspended stops what the file suspends. It starts when the file does not any more.
func (c *Controller) suspended(ctx context.Context, path string) {
	sup, id, err := c.locate(path)
	if err == nil {
		var info supervisor.ChildInfo
		if info, err = sup.Child(id); err == nil {
			err = c.stopChild(ctx, path, info, func(ctx context.Context) error {
				return sup.TerminateChild(ctx, id,
					supervisor.ReasonSuspended)
			})
		}
	}
	if err != nil {
		c.logUnexpected("cannot stop what the file suspends", path, err)
		return
	}
	c.log.Append(event.Event{
		Type: event.AgentSuspended, Path: path, Incarnation: c.last(path), Actor: "controller",
		Message: path + " is suspended: " + c.suspendedBy(c.fleet(), path),
	})
}

// held tells that an agent is not renewed because it was started too often; once
// for as long as that lasts.
func (c *Controller) held(d reconcile.Delay) {
	c.log.Append(event.Event{
		Type: event.AgentQuarantined, Path: d.Path, Incarnation: c.last(d.Path), Actor: "controller",
		Message: d.String(),
	}.With(map[string]any{"until": d.Until, "cause": d.Cause.String()}))
}

// logUnexpected logs an error unless an event tells of it, or it only says that the node is
// being dealt with already.
func (c *Controller) logUnexpected(what, path string, err error) {
	var start *supervisor.StartError
	var held *supervisor.HeldError
	switch {
	case err == nil, errors.As(err, &start), errors.As(err, &held),
		errors.Is(err, supervisor.ErrRunning), errors.Is(err, supervisor.ErrNotRunning),
		errors.Is(err, supervisor.ErrRestarting),
		errors.Is(err, supervisor.ErrTerminated), errors.Is(err, supervisor.ErrPaused),
		errors.Is(err, supervisor.ErrStopping),
		errors.Is(err, supervisor.ErrNoSupervisor), errors.Is(err, supervisor.ErrNotFound),
		errors.Is(err, context.Canceled):
	default:
		c.opts.Logger.Warn(what, "path", path, "error", fmt.Sprint(err))
	}
}
