package health

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
)

// noSession panics in all methods that fakeAgent does not replace.
type noSession struct{ runtime.Session }

// fakeAgent is an agent and its session with prepared answers.
type fakeAgent struct {
	noSession
	ctx context.Context
	end context.CancelFunc

	mu      sync.Mutex
	said    sdnotify.Notice
	life    runtime.Life
	started time.Time
	active  time.Time // the last activity; zero: now
	err     error     // of LastActivity
	arrives func(*sdnotify.Notice)
	typed   []string
	reason  error // it was failed for
	sig     syscall.Signal
}

func newAgent(t *testing.T) *fakeAgent {
	a := &fakeAgent{said: sdnotify.Notice{Since: time.Now()}, life: runtime.Alive, started: time.Now()}
	a.ctx, a.end = context.WithCancel(context.Background())
	t.Cleanup(a.end)
	return a
}

func (a *fakeAgent) Session() runtime.Session { return a }
func (a *fakeAgent) Context() context.Context { return a.ctx }
func (a *fakeAgent) Done() <-chan struct{}    { return a.ctx.Done() }

func (a *fakeAgent) Leaving() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reason != nil
}

func (a *fakeAgent) Fail(reason error, sig syscall.Signal) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reason != nil || a.ctx.Err() != nil {
		return false
	}
	a.reason, a.sig = reason, sig
	a.end()
	return true
}

func (a *fakeAgent) Observe() runtime.Observation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return runtime.Observation{Life: a.life, Said: a.said, StartedAt: a.started}
}

func (a *fakeAgent) LastActivity(context.Context) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.arrives != nil {
		a.arrives(&a.said)
		a.arrives = nil
	}
	if a.active.IsZero() {
		return time.Now(), a.err
	}
	return a.active, a.err
}

func (a *fakeAgent) Write(_ context.Context, data []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.typed = append(a.typed, string(data))
	return nil
}

func (a *fakeAgent) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// fakeFleet is a fleet of one agent with its monitor.
type fakeFleet struct {
	*Monitor
	agent      *fakeAgent
	spec       *spec.Agent
	questions  atomic.Bool
	draining   atomic.Bool
	reconciles atomic.Int32

	mu     sync.Mutex
	events []event.Event
}

var self = token.Caller{Path: "t/a", Incarnation: 1}

// watch returns a fleet whose agent is ready.
func watch(t *testing.T, a *spec.Agent) *fakeFleet {
	f := &fakeFleet{spec: a}
	f.Monitor = New(Options{
		Fleet: f, Logger: slog.New(slog.DiscardHandler),
		Append: func(e event.Event) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, e)
		},
		Reconcile: func() { f.reconciles.Add(1); f.FailIdle(self.Path) },
		Go:        func(work func(context.Context)) { work(t.Context()) },
	})
	f.agent = newAgent(t)
	f.Add(self)
	f.Start(self, f.agent, a)
	t.Cleanup(func() { f.End(self) })
	return f
}

func (f *fakeFleet) Spec(string) *spec.Agent       { return f.spec }
func (f *fakeFleet) HasQuestion(token.Caller) bool { return f.questions.Load() }
func (f *fakeFleet) Draining(string) bool          { return f.draining.Load() }
func (f *fakeFleet) Ready(context.Context, token.Caller) error {
	return nil
}
func (f *fakeFleet) Run(context.Context, *spec.Agent, runtime.Observation, []string, ...string) ([]string, error) {
	return nil, nil
}

func (f *fakeFleet) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, e := range f.events {
		all = append(all, strings.TrimPrefix(string(e.Type), "agent."))
	}
	return strings.Join(all, " ")
}

// A silent agent is probed, nudged and failed. A sign of life ends that.
func TestHeartbeatTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := watch(t, &spec.Agent{HeartbeatTimeout: time.Minute, Nudge: spec.Nudge{Type: true}})
		time.Sleep(50 * time.Second)
		f.Heartbeat(self, Beat{})
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if got, want := f.logged(), "unresponsive nudged"; got != want {
			t.Errorf("logged %q, want %q", got, want)
		}
		if want := []string{harmless(silentText), "\r"}; !slices.Equal(f.agent.typed, want) {
			t.Errorf("typed %q, want %q", f.agent.typed, want)
		}
		f.Request(self)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got, want := f.logged(), "unresponsive nudged responsive unresponsive nudged condemned"; got != want {
			t.Errorf("logged %q, want %q", got, want)
		}
		if f.agent.reason == nil || f.agent.sig != 0 {
			t.Errorf("failed with %v: %v", f.agent.sig, f.agent.reason)
		}
	})
}

// An agent that waits for an answer or a task may be silent; the wait ends with a drain, or with the
// incarnation.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := watch(t, &spec.Agent{HeartbeatTimeout: time.Minute})
		wait := func(drained bool) error {
			return f.Await(t.Context(), self, func(ctx context.Context) error {
				if drained {
					var stop func()
					ctx, stop = f.UntilDrained(ctx, self)
					defer stop()
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}
		errs := make(chan error, 1)
		go func() { errs <- wait(true) }()
		time.Sleep(time.Hour)
		if !f.AwaitsTask(self.Path) || f.logged() != "" {
			t.Errorf("awaits a task: %v, logged %q", f.AwaitsTask(self.Path), f.logged())
		}
		f.draining.Store(true)
		f.Drain(self.Path)
		if err := <-errs; !errors.Is(err, ErrDraining) {
			t.Errorf("drained: %v", err)
		}
		if err := wait(true); !errors.Is(err, ErrDraining) {
			t.Errorf("drained before: %v", err)
		}
		go func() { errs <- wait(false) }()
		synctest.Wait()
		f.End(self)
		if err := <-errs; !errors.Is(err, token.ErrStale) {
			t.Errorf("ended: %v", err)
		}
		if err := wait(false); !errors.Is(err, token.ErrStale) {
			t.Errorf("ended before: %v", err)
		}
	})
}

// An idle agent is failed, unless it waits for a person or is drained.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := watch(t, &spec.Agent{IdleTimeout: time.Minute})
		f.agent.change(func() { f.agent.active = time.Now() })
		f.questions.Store(true)
		f.QuestionsChanged(self.Path)
		time.Sleep(10 * time.Minute)
		f.questions.Store(false)
		f.QuestionsChanged(self.Path)
		time.Sleep(59 * time.Second)
		if at, ok := f.Activity(self.Path); !ok || !at.Counts || at.Idle != 59*time.Second {
			t.Errorf("%+v, %v", at, ok)
		}
		if f.Leaving() {
			t.Error("failed for what it was excused from")
		}
		f.Update(self.Path, &spec.Agent{IdleTimeout: 2 * time.Minute})
		time.Sleep(time.Minute)
		if f.Leaving() {
			t.Error("failed before its new timeout")
		}
		time.Sleep(2 * time.Minute)
		if !f.Leaving() || f.logged() != "idle_killed" || f.reconciles.Load() == 0 {
			t.Errorf("failed: %v, logged %q, %d reconciliations", f.agent.reason, f.logged(), f.reconciles.Load())
		}
	})
}

func (f *fakeFleet) Leaving() bool { return f.agent.Leaving() }

// A runtime that cannot tell whether an agent is idle is logged once.
func TestIdleUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &spec.Agent{IdleTimeout: time.Minute}
		f := watch(t, a)
		f.agent.change(func() { f.agent.err = runtime.ErrUnsupported })
		for range 3 {
			time.Sleep(time.Minute)
			f.Update(self.Path, a)
		}
		synctest.Wait()
		if len(f.events) != 1 || f.events[0].Type != event.AgentIdleUnknown {
			t.Errorf("logged %q", f.logged())
		}
	})
}

// Nothing is typed into a terminal while a person may be typing.
func TestNudgeWhileTyping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := watch(t, &spec.Agent{Nudge: spec.Nudge{Type: true}})
		stop := f.BeginTyping(self.Path)
		f.Nudge(t.Context(), self.Path, "mail")
		if len(f.agent.typed) > 0 {
			t.Errorf("typed %q", f.agent.typed)
		}
		stop()
		f.Nudge(t.Context(), self.Path, "mail")
		if want := []string{"mail", "\r"}; !slices.Equal(f.agent.typed, want) {
			t.Errorf("typed %q, want %q", f.agent.typed, want)
		}
		if !strings.Contains(f.events[0].Message, errTyping.Error()) {
			t.Errorf("logged %q", f.events[0].Message)
		}
	})
}
