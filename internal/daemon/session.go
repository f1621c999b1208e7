package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// lost is an incarnation of which nothing is left.
type lost struct {
	done   chan struct{}
	cancel context.CancelCauseFunc
}

func newLost(l *life) lost {
	ctx, cancel := context.WithCancelCause(context.Background())
	p := lost{make(chan struct{}), cancel}
	go func() {
		defer close(p.done)
		defer cancel(nil)
		l.failed(ctx, p.Exit())
		l.died(ctx, p.Exit())
		l.over(p.Exit(), false)
	}()
	return p
}

func (l lost) Done() <-chan struct{} { return l.done }
func (lost) Exit() supervisor.Exit   { return supervisor.Exit{Kind: supervisor.Lost, Err: errLost} }
func (lost) Stop()                   {}
func (l lost) Kill()                 { l.cancel(errKilled) }

// start is the Start function of an agent in the runtime.
func (c *Controller) start(a *spec.Agent, signal syscall.Signal) (func(context.Context) (supervisor.Process, error),
	error) {
	as, err := c.identity(a)
	if err != nil {
		return nil, err
	}
	var first atomic.Pointer[runtime.Launch] // one incarnation runs what the other did
	launch := func(self supervisor.Self, token string) (runtime.Launch, error) {
		l := first.Load()
		if l == nil || len(a.EnvFiles) > 0 {
			made, err := c.launch(a, as, signal, self, token)
			made.Log = runtime.Log(a.Logs.Or(c.fleet().file.Logs))
			first.Store(&made)
			return made, err
		}
		again := *l
		again.Log = runtime.Log(a.Logs.Or(c.fleet().file.Logs))
		again.Afresh, again.Incarnation, again.Token = false, self.Incarnation, token
		again.Env = proc.Reissue(l.Env, self.Incarnation, token)
		return again, nil
	}
	start := func(ctx context.Context) (supervisor.Process, error) {
		self, _ := supervisor.SelfOf(ctx)
		l := &life{c: c, ctx: ctx, agent: a, as: as, self: self}
		s, err := c.session(ctx, l, launch)
		switch {
		case err != nil:
			exit := supervisor.Exit{Kind: supervisor.Failure, Err: err}
			if ctx.Err() == nil && l.env != nil {
				l.failed(context.WithoutCancel(ctx), exit)
			}
			l.over(exit, ctx.Err() != nil)
			return nil, err
		case s == nil:
			return newLost(l), nil
		}
		c.mu.Lock()
		c.sessions[self.Path] = s
		c.mu.Unlock()
		p := newProcess(s, func() bool { return c.leavesAlone(self.Path) }, a.Shutdown.Grace, l.turns(),
			turn{&c.sequence, self.Path})
		c.health.Start(api.Caller{Path: self.Path, Incarnation: self.Incarnation}, p, a)
		return p, nil
	}
	begin := func(ctx context.Context) (supervisor.Process, error) {
		self, _ := supervisor.SelfOf(ctx)
		return c.processes.start(ctx, self.Path, start)
	}
	if a.Aide != nil {
		begin = c.triggers.Start(begin)
	}
	return begin, nil
}

// session starts an incarnation, or takes it over if it lives already. It
// returns nil, and no error, for one that should live and has left nothing.
func (c *Controller) session(ctx context.Context, of *life,
	launch func(self supervisor.Self, token string) (runtime.Launch, error)) (_ runtime.Session, err error) {
	a, self := of.agent, of.self
	c.mu.Lock()
	adopt, ok := c.adopt[self.Path]
	delete(c.adopt, self.Path)
	c.mu.Unlock()
	ok = ok && adopt.incarnation == self.Incarnation
	if err := c.clearStrays(ctx, a, self.Path, adopt, ok); err != nil {
		return nil, err
	}
	home := c.places[a.Runtime.String()]
	if ok {
		defer func() {
			if err != nil && ctx.Err() != nil && !c.leavesAlone(self.Path) { // given up: it lives, and nobody knows it
				c.stopUntakenAt(self.Path, adopt.kind)
			}
		}()
		var s runtime.Session
		s, err = takeOver(ctx, c.places[adopt.kind], self)
		if err == nil && s == nil {
			var token string
			token, err = c.begin(ctx, self)
			l, _ := launch(self, token) // it is for hooks
			of.env = l.Env
		}
		if err != nil || s == nil {
			return nil, err
		}
		o := s.Observe()
		if err := c.resumed(ctx, o); err != nil {
			return nil, err
		}
		l, _ := launch(self, o.Token) // it is for hooks
		of.env = l.Env
		c.hashes.adopted(o, a)
		if err := ready(ctx, s); err != nil || !adopt.late {
			return s, err
		}
		return s, of.started(ctx, s)
	}
	if c.drains.Stops(self.Path) {
		return nil, supervisor.ErrIgnore // what was to finish and has ended is not started again
	}
	if c.fleet().suspended(self.Path) {
		return nil, supervisor.ErrIgnore // its group is started
	}
	c.caughtUp(ctx, self.Path, self.Incarnation)
	token, err := c.begin(ctx, self)
	if err != nil {
		return nil, err
	}
	l, err := launch(self, token)
	if of.env = l.Env; err != nil {
		return nil, err
	}
	c.hashes.begin(api.Caller{Path: self.Path, Incarnation: self.Incarnation}, a)
	if err := of.run(ctx, "on_waking", a.Hooks.Waking); err != nil {
		return nil, err
	}
	for {
		s, err := home.Start(ctx, l)
		switch {
		case errors.Is(err, runtime.ErrUnknown):
			// It may have been started. Look until that is known.
			if s, err = takeOver(ctx, home, self); err != nil {
				return nil, err
			}
			if s != nil && c.isOf(s.Observe(), self) {
				if err := ready(ctx, s); err != nil {
					return s, err
				}
				return s, of.started(ctx, s)
			}
		case errors.Is(err, runtime.ErrBusy):
			// An incarnation that was given up, or that nobody knew of. It goes first.
			if err := evict(ctx, home, self.Path, a.Shutdown.Grace); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		default:
			return s, of.started(ctx, s)
		}
	}
}

// isOf reports whether that is the incarnation, and not one of an earlier life
// of the tree that had the same number.
func (c *Controller) isOf(o runtime.Observation, self supervisor.Self) bool {
	return o.Incarnation == self.Incarnation && !(c.opts.Once && o.StartedAt.Before(c.started))
}

// ready waits until an adopted incarnation is ready, or has ended: its end is
// then told as that, not as a start that failed.
func ready(ctx context.Context, s runtime.Session) error {
	err := s.AwaitReady(ctx)
	select {
	case <-s.Done():
		return nil
	default:
		return err
	}
}
