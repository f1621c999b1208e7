package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// starter starts the incarnations of an agent.
type starter struct {
	m      *Manager
	agent  *spec.Agent
	as     Identity
	signal syscall.Signal
	first  atomic.Pointer[runtime.Launch] // later incarnations run what the first one did
}

// Start returns the function by which the supervisor of an agent starts it.
func (m *Manager) Start(
	a *spec.Agent, signal syscall.Signal,
) (func(context.Context) (supervisor.Process, error), error) {
	as, err := m.Identity(a)
	if err != nil {
		return nil, err
	}
	s := &starter{m: m, agent: a, as: as, signal: signal}
	return func(ctx context.Context) (supervisor.Process, error) {
		self, _ := supervisor.SelfOf(ctx)
		return m.Stopper.registry.start(ctx, self.Path, s.start)
	}, nil
}

// start starts an incarnation, or adopts it if it runs already.
func (s *starter) start(ctx context.Context) (supervisor.Process, error) {
	self, _ := supervisor.SelfOf(ctx)
	who := token.Caller{Path: self.Path, Incarnation: self.Incarnation}
	h := &hookRunner{m: s.m, ctx: ctx, agent: s.agent, home: s.home(), as: s.as, who: who}
	session, err := s.session(ctx, h)
	switch {
	case err != nil:
		err = withoutLease(err, s.agent.Restart)
		exit := supervisor.Exit{Kind: supervisor.Failure, Err: err}
		if ctx.Err() == nil && h.env.Vars != nil && hasFailed(exit) {
			h.failed(context.WithoutCancel(ctx), exit)
		}
		h.ended(exit, ctx.Err() != nil)
		return nil, err
	case session == nil:
		return newLostProcess(h), nil
	}
	p := newProcess(session, func() bool { return s.m.Keeps(self.Path) }, s.agent.Shutdown.Grace, h.lifecycle(),
		turn{&s.m.Stopper.sequence, self.Path})
	p.env = h.env
	for _, l := range s.m.Listeners {
		if l.Run != nil {
			l.Run(who, p, s.agent)
		}
	}
	return p, nil
}

// session starts an incarnation, or adopts it. It returns nil, and no error, for one that should run
// and has left nothing.
func (s *starter) session(ctx context.Context, h *hookRunner) (runtime.Session, error) {
	m, path := s.m, h.who.Path
	m.mu.Lock()
	from, ok := m.adoptions[path]
	delete(m.adoptions, path)
	m.mu.Unlock()
	ok = ok && from.incarnation == h.who.Incarnation
	if err := m.clearStale(ctx, s.agent, path, from, ok); err != nil {
		return nil, err
	}
	if ok {
		session, err := s.adopt(ctx, h, from)
		if err != nil && ctx.Err() != nil && !m.Keeps(path) { // it runs, and has no supervisor
			m.stopSlot(path, from.kind)
		}
		return session, err
	}
	if m.Drains.Stops(path) || m.Fleet().Suspends(path) {
		return nil, supervisor.ErrIgnore
	}
	files, err := s.files(ctx, path)
	if err != nil {
		return nil, err
	}
	m.Starts.AwaitEarlier(ctx, path, h.who.Incarnation)
	token, err := m.begin(ctx, h.who)
	if err != nil {
		return nil, err
	}
	l, err := s.launch(h.who, token)
	if h.env = envOf(l); err != nil {
		return nil, err
	}
	l.Files = files
	for _, l := range m.Listeners {
		if l.Launch != nil {
			l.Launch(h.who, s.agent)
		}
	}
	if err := s.wake(ctx, h, l); err != nil {
		return nil, err
	}
	return s.startIn(ctx, h, l)
}

// files returns the files of an incarnation.
func (s *starter) files(ctx context.Context, path string) (*runtime.Files, error) {
	if s.m.Files == nil {
		return nil, nil
	}
	return s.m.Files(ctx, path)
}

// placer is a runtime of several machines.
type placer interface {
	// Place chooses the machine on which an incarnation is started then, and on which its commands run before that.
	Place(ctx context.Context, l runtime.Launch) error
}

// wake runs the on_waking hook.
func (s *starter) wake(ctx context.Context, h *hookRunner, l runtime.Launch) error {
	if !s.agent.Hooks.Waking.Exists() {
		return nil
	}
	if p, ok := h.home.(placer); ok {
		if err := p.Place(ctx, l); err != nil {
			return err
		}
	}
	return h.run(ctx, "on_waking", s.agent.Hooks.Waking)
}

// home returns the runtime of the agent.
func (s *starter) home() runtime.Runtime { return s.m.runtimes[s.agent.Runtime.String()] }

// startIn starts an incarnation in its slot.
func (s *starter) startIn(ctx context.Context, h *hookRunner, l runtime.Launch) (runtime.Session, error) {
	home := h.home
	defer s.m.Stopper.killInHurry(ctx, home, h.who.Path)()
	for {
		session, err := home.Start(ctx, l)
		switch {
		case errors.Is(err, runtime.ErrUnknown): // it may have been started
			if session, err = adoptIfAny(ctx, home, h.who.Path); err != nil {
				return nil, err
			}
			if session != nil && s.m.isOf(session.Observe(), h.who) {
				if err := awaitReady(ctx, session); err != nil {
					return session, err
				}
				return session, h.started(ctx, session)
			}
		case errors.Is(err, runtime.ErrBusy): // by an incarnation that was abandoned, or was not known
			if err := Evict(ctx, home, h.who.Path, s.agent.Shutdown.Grace); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		default:
			return session, h.started(ctx, session)
		}
	}
}

// adopt adopts an incarnation that an earlier daemon has started.
func (s *starter) adopt(ctx context.Context, h *hookRunner, from adoption) (runtime.Session, error) {
	session, err := adoptIfAny(ctx, s.m.runtimes[from.kind], h.who.Path)
	if err == nil && session == nil {
		var token string
		token, err = s.m.begin(ctx, h.who)
		h.env, h.began = s.environ(h.who, token), from.startedAt
	}
	if err != nil || session == nil {
		return nil, err
	}
	o := session.Observe()
	if err := s.m.adopt(ctx, o); err != nil {
		return nil, err
	}
	h.env = s.environ(h.who, o.Token)
	for _, l := range s.m.Listeners {
		if l.Adopt != nil {
			l.Adopt(o, s.agent)
		}
	}
	if err := awaitReady(ctx, session); err != nil || !from.late {
		return session, err
	}
	return session, h.started(ctx, session)
}

// isOf reports whether that is the incarnation, and not one of an earlier life of the tree that had
// the same number.
func (m *Manager) isOf(o runtime.Observation, who token.Caller) bool {
	return o.Incarnation == who.Incarnation && !(m.Once && o.StartedAt.Before(m.Started))
}

// awaitReady waits until an adopted incarnation is ready, or has ended: its end is not a failed start.
func awaitReady(ctx context.Context, s runtime.Session) error {
	err := s.AwaitReady(ctx)
	if isClosed(s.Done()) {
		return nil
	}
	return err
}

// environ returns the environment of the hooks of an adopted incarnation.
func (s *starter) environ(who token.Caller, token string) Env {
	l, _ := s.launch(who, token)
	return envOf(l)
}

func envOf(l runtime.Launch) Env { return Env{l.Env, l.Inherited} }

// launch returns what an incarnation runs: what the first one did, unless that depends on files.
func (s *starter) launch(who token.Caller, token string) (l runtime.Launch, err error) {
	if first := s.first.Load(); first != nil && len(s.agent.EnvFiles) == 0 {
		l = *first
		l.ResetNumbering, l.Incarnation, l.Token = false, who.Incarnation, token
		l.Env = proc.WithIncarnation(first.Env, who.Incarnation, token)
	} else {
		l, err = s.newLaunch(who, token)
		first := l
		s.first.Store(&first)
	}
	l.Log = runtime.Log(s.agent.Logs.Or(s.m.Fleet().Logs()))
	if s.m.Environ != nil {
		vars, e := s.m.Environ(who.Path, l.Env)
		env := envOf(l).with(vars)
		l.Env, l.Inherited, err = env.Vars, env.Inherited, cmp.Or(err, e)
	}
	return l, err
}

// newLaunch returns what an incarnation runs. If the environment files of the agent cannot be read, it
// is without them, and the error says so.
func (s *starter) newLaunch(who token.Caller, token string) (runtime.Launch, error) {
	a := s.agent
	env, err := s.as.Environ(a, proc.Self{Agent: who.Path, Incarnation: who.Incarnation, Token: token})
	l := runtime.Launch{
		Path: who.Path, Incarnation: who.Incarnation, Token: token, Home: a.Home,
		SpecHash: s.m.Fleet().Declared(who.Path, a).Sum,
		Argv:     a.Command, Dir: a.Dir, Stdin: a.Stdin, Env: env.Vars, Inherited: env.Inherited,
		Program: a.Program, StopSignal: s.signal, Grace: a.Shutdown.Grace, Ready: a.Ready,
		ResetNumbering: s.m.Once && who.Incarnation == 1,
		Terminal:       a.Terminal, Limits: runtime.Limits(a.Limits),
		NoNewPrivileges: a.NoNewPrivileges, User: s.as.User,
		Paths:  landlock.New(a.ReadWritePaths, a.ReadOnlyPaths).WithOwnSignals(true),
		Notify: a.Notify, Watchdog: a.Watchdog,
	}
	if s.m.Prepare != nil {
		s.m.Prepare(a, &l)
	}
	if a.Terminal || a.Runtime == spec.Tmux {
		l.Argv = proc.OutlastedShell(l.Argv, s.signal)
	}
	if a.Terminal && !slices.ContainsFunc(l.Env, func(kv string) bool { return strings.HasPrefix(kv, "TERM=") }) {
		l.Env = append(l.Env, "TERM=xterm-256color") // a daemon that a service manager has started has none
	}
	return l, err
}
