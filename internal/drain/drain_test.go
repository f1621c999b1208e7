package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// fleet is a fleet of agents that start and stop at once.
type fleet struct {
	onRenew  func(path string, incarnation uint64) // may be nil
	mu       sync.Mutex
	children map[string]supervisor.ChildInfo
	busy     int // attempts to stop an agent that fail
	calls    []string
}

func (f *fleet) called(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fleet) Below(path string) (agents []string, err error) {
	for at := range f.children {
		if at == path || strings.HasPrefix(at, path+"/") {
			agents = append(agents, at)
		}
	}
	if agents == nil {
		err = api.ErrNotFound
	}
	return agents, err
}

func (f *fleet) Child(path string) (supervisor.ChildInfo, error) { return f.children[path], nil }

func (f *fleet) StopNow(_ context.Context, path string) error {
	f.called("stop %s", path)
	return nil
}

func (f *fleet) Suspend(_ context.Context, path string) ([]store.Op, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy > 0 {
		f.busy--
		return nil, api.ErrConflict
	}
	f.calls = append(f.calls, "suspend "+path)
	return nil, nil
}

func (f *fleet) Renew(_ context.Context, path string, incarnation uint64, counted bool) {
	f.called("renew %s %d %v", path, incarnation, counted)
	if f.onRenew != nil {
		f.onRenew(path, incarnation)
	}
}

func (f *fleet) StopWaiting(path string) bool          { return f.children[path].State == supervisor.Running }
func (f *fleet) DropRestart(string, string)            {}
func (f *fleet) ChecksDrains(token.Caller)             {}
func (f *fleet) Nudge(context.Context, string, string) {}

// harness is a Manager over a fleet with the agents t/a and t/b, which run as incarnation 3.
type harness struct {
	*Manager
	t      *testing.T
	fleet  *fleet
	ctx    context.Context
	end    context.CancelFunc
	mu     sync.Mutex
	events []string
}

func newHarness(t *testing.T, db store.Store) *harness {
	running := supervisor.ChildInfo{State: supervisor.Running, Incarnation: 3}
	launched := make(chan struct{})
	close(launched)
	r := &harness{t: t, fleet: &fleet{children: map[string]supervisor.ChildInfo{"t/a": running, "t/b": running}}}
	r.ctx, r.end = context.WithCancel(t.Context())
	r.Manager = New(Options{
		Store: db, Logger: slog.New(slog.DiscardHandler), Agents: r.fleet, Launched: launched,
		Record: func(e event.Event, ops ...store.Op) error {
			r.mu.Lock()
			r.events = append(r.events, string(e.Type)+": "+e.Message)
			r.mu.Unlock()
			_, err := db.Apply(t.Context(), store.Fence{}, nil, ops)
			return err
		},
		Go:      func(f func(context.Context)) { go f(r.ctx) },
		Changed: func(string) {},
	})
	return r
}

func (r *harness) wants(calls string, events ...string) {
	r.t.Helper()
	synctest.Wait()
	r.fleet.mu.Lock()
	if got := strings.Join(r.fleet.calls, ", "); got != calls {
		r.t.Errorf("called %q, want %q", got, calls)
	}
	r.fleet.mu.Unlock()
	r.mu.Lock()
	if !slices.Equal(r.events, events) {
		r.t.Errorf("events\n%s\nwant\n%s", strings.Join(r.events, "\n"), strings.Join(events, "\n"))
	}
	r.mu.Unlock()
}

// stored returns the number of drains in the store.
func (r *harness) stored() int {
	all, _, err := r.Store.Snapshot(r.t.Context(), prefix)
	if err != nil {
		r.t.Fatal(err)
	}
	return len(all)
}

var third = token.Caller{Path: "t/a", Incarnation: 3}

// Every end of a drain is reported, and leaves nothing in the store.
func TestDrain(t *testing.T) {
	const asked, drained = "agent.draining: t/a is asked to finish within 1m: lunch", "agent.drained: t/a "
	for name, c := range map[string]struct {
		happens func(r *harness)
		takes   time.Duration
		calls   string
		err     error
		events  []string
	}{
		"acknowledged": {
			happens: func(r *harness) { r.AckDrain(third); r.AckDrain(third) }, calls: "suspend t/a",
			events: []string{asked, "agent.finished: t/a says that it has finished", drained + "has finished, and is stopped"},
		},
		"exited": {
			happens: func(r *harness) { r.Exited("t/a", 2); r.Exited("t/a", 3) }, calls: "suspend t/a",
			events: []string{asked, drained + "has ended, and is stopped"},
		},
		"too late": {
			happens: func(*harness) {}, takes: time.Minute, calls: "suspend t/a",
			events: []string{asked, drained + "did not finish in time, and is stopped"},
		},
		"canceled": {
			happens: func(r *harness) { r.Cancel(r.ctx, "t/a") }, err: api.ErrConflict,
			events: []string{asked, "agent.drain_ended: t/a need no longer finish"},
		},
		"supervisor is busy": {
			happens: func(r *harness) { r.fleet.busy = 3; r.Exited("t/a", 3) }, takes: 3 * retryDelay, calls: "suspend t/a",
			events: []string{asked, drained + "has ended, and is stopped"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHarness(t, memory.New())
				begun, done := time.Now(), make(chan error, 1)
				go func() {
					done <- r.Drain(r.ctx, Request{Path: "t/a", Timeout: 60, Reason: "lunch"})
				}()
				synctest.Wait()
				d := r.Draining(third)
				if d == nil || d.Left != 60 || d.Reason != "lunch" || r.stored() != 1 {
					t.Errorf("the drain is %+v; %d stored", d, r.stored())
				}
				c.happens(r)
				if err := <-done; !errors.Is(err, c.err) {
					t.Errorf("got %v, want %v", err, c.err)
				}
				if took := time.Since(begun); took != c.takes {
					t.Errorf("it took %v, want %v", took, c.takes)
				}
				r.wants(c.calls, c.events...)
				if r.Has("t/a") || r.stored() > 0 {
					t.Errorf("there is still a drain, or one of %d records", r.stored())
				}
				if err := r.AckDrain(third); !errors.Is(err, api.ErrConflict) {
					t.Errorf("acknowledged afterwards: %v", err)
				}
			})
		})
	}
}

// Draining a supervisor drains all agents below it. Agents that do not run are stopped at once.
func TestDrainBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, memory.New())
		r.fleet.children["t/b"] = supervisor.ChildInfo{State: supervisor.Restarting}
		done := make(chan error, 1)
		go func() { done <- r.Drain(r.ctx, Request{Path: "t"}) }()
		synctest.Wait()
		if !r.Has("t/a") || r.Has("t/b") {
			t.Error("not the agent that runs is drained")
		}
		r.Exited("t/a", 3)
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.wants("stop t/b, suspend t/a", "agent.draining: t/a is asked to finish within 5m",
			"agent.drained: t/a has ended, and is stopped")
		if err := r.Drain(r.ctx, Request{Path: "x"}); !errors.Is(err, api.ErrNotFound) {
			t.Errorf("an unknown path: %v", err)
		}
	})
}

// An incarnation counts as drained until it is replaced, although its drain is over.
func TestRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, memory.New())
		defer r.end()
		r.fleet.onRenew = func(path string, incarnation uint64) {
			if !r.IsDraining(path, incarnation) || r.IsDraining(path, incarnation+1) || r.Has(path) {
				t.Error("the incarnation that is replaced is not drained, or its successor is")
			}
		}
		r.Renew("t/a", 3, "", time.Minute, false)
		if !r.IsDraining("t/a", 3) || r.IsDraining("t/a", 4) {
			t.Error("the incarnation is not drained, or another one is")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if r.IsDraining("t/a", 3) || !slices.Equal(r.fleet.calls, []string{"renew t/a 3 false"}) {
			t.Errorf("still drained: %v; called %q", r.IsDraining("t/a", 3), r.fleet.calls)
		}
	})
}

// A drain that would end with a restart ends with a stop if a person has asked for one.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, memory.New())
		r.Renew("t/a", 3, "drifted: env", time.Minute, true)
		r.Renew("t/b", 3, "drifted: env", time.Minute, false)
		if s, ok := r.Of("t/a"); !ok || !s.Renew || r.Stops("t/a") {
			t.Errorf("the drain is %+v", s)
		}
		done := make(chan error, 1)
		go func() { done <- r.Drain(r.ctx, Request{Path: "t/b"}) }()
		synctest.Wait()
		if !r.Stops("t/b") {
			t.Error("it is still to be started again")
		}
		r.Exited("t/a", 3)
		synctest.Wait()
		r.AckDrain(token.Caller{Path: "t/b", Incarnation: 3})
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.wants("renew t/a 3 true, suspend t/b",
			"agent.draining: t/a is asked to finish within 1m: drifted: env",
			"agent.draining: t/b is asked to finish within 1m: drifted: env",
			"agent.drain_ended: t/a has ended, and is started again",
			"agent.finished: t/b says that it has finished", "agent.drained: t/b has finished, and is stopped")
	})
}

// AwaitStop delays an exit until the supervisor has asked for a stop, for a bounded time.
func TestAwaitStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, memory.New())
		held := func(path string, incarnation uint64, then func(cancel func())) time.Duration {
			asked, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Second, func() { then(cancel) })
			begun := time.Now()
			r.AwaitStop(asked, path, incarnation)
			return time.Since(begun)
		}
		nothing := func(func()) {}
		r.Renew("t/b", 3, "", time.Hour, false)
		r.BeginSurplus("t/a", 3, "", time.Hour)
		for _, c := range []struct {
			name      string
			got, want time.Duration
		}{
			{"asked to stop", held("t/a", 3, func(cancel func()) { cancel() }), time.Second},
			{"never asked", held("t/a", 3, nothing), maxHold},
			{"another incarnation", held("t/a", 4, nothing), 0},
			{"to be renewed", held("t/b", 3, nothing), 0},
			{"not drained", held("t/c", 3, nothing), 0},
			{"goes on", held("t/a", 3, func(func()) { r.CancelSurplus("t/a") }), time.Second},
		} {
			if c.got != c.want {
				t.Errorf("%s: held for %v, want %v", c.name, c.got, c.want)
			}
		}
		r.end()
	})
}

// The pool decides what happens to a drained surplus instance.
func TestSurplus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, memory.New())
		r.BeginSurplus("t/a", 3, "too many", time.Minute)
		time.Sleep(time.Hour)
		if s, ok := r.Of("t/a"); !ok || !s.Pool || s.API().Left != 0 {
			t.Errorf("the drain is %+v", s)
		}
		r.CancelSurplus("t/a")
		r.CancelSurplus("t/a")
		r.BeginSurplus("t/a", 3, "too many", time.Minute)
		r.DecideSurplus("t/a", "did not finish in time")
		r.CancelSurplus("t/a") // too late
		r.Conclude(t.Context(), "t/a")
		r.BeginSurplus("t/b", 3, "too many", time.Minute)
		r.Conclude(t.Context(), "t/b")
		r.wants("", "agent.draining: t/a is asked to finish within 1m: too many",
			"agent.drain_ended: t/a need no longer finish: its pool wants it again",
			"agent.draining: t/a is asked to finish within 1m: too many",
			"agent.drained: t/a did not finish in time, and is stopped",
			"agent.draining: t/b is asked to finish within 1m: too many",
			"agent.drained: t/b is no longer in the file, and is stopped")
		if r.stored() > 0 {
			t.Errorf("%d drains are stored", r.stored())
		}
	})
}

// The next daemon continues the drains of the previous one.
func TestRestore(t *testing.T) {
	const over = "agent.drain_ended: t/a: the drain is over"
	wanted := func(incarnation uint64) *Previous { return &Previous{Incarnation: incarnation, Wanted: true} }
	ended := &Previous{Incarnation: 3, Wanted: true, Ended: true}
	for name, c := range map[string]struct {
		past    *Previous
		kind    func(*harness)
		left    time.Duration // 0: the drain is over
		event   string
		suspend bool
	}{
		"runs":           {past: wanted(3), left: 50 * time.Second},
		"is gone":        {past: nil, event: over},
		"another runs":   {past: wanted(4), event: over},
		"not wanted":     {past: &Previous{Incarnation: 3}, event: over},
		"was stopped":    {past: &Previous{Incarnation: 3, Wanted: true, Suspended: true}, event: over},
		"has exited":     {past: ended, suspend: true, event: "agent.drained: t/a has ended, and stays stopped"},
		"renewed, runs":  {past: wanted(3), kind: renewed, left: 50 * time.Second},
		"renewed, ended": {past: ended, kind: renewed, event: over},
		"surplus, runs":  {past: wanted(3), kind: surplus, left: 50 * time.Second},
		"surplus, ended": {past: &Previous{Incarnation: 3, Ended: true}, kind: surplus, event: "agent.drained: t/a has ended, and is gone"},
		"surplus, gone":  {kind: surplus, event: "agent.drained: t/a has ended, and is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := memory.New()
				r := newHarness(t, db)
				if c.kind == nil {
					c.kind = func(r *harness) { go r.Drain(r.ctx, Request{Path: "t/a", Timeout: 60}) }
				}
				c.kind(r)
				synctest.Wait()
				r.end() // the daemon is killed
				time.Sleep(10 * time.Second)
				r, suspended := newHarness(t, db), false
				defer r.end()
				if err := r.Restore(t.Context(), func(string) (Previous, bool) {
					if c.past == nil {
						return Previous{}, false
					}
					return *c.past, true
				}, func(path string) store.Op {
					suspended = true
					return store.Op{Kind: store.Put, Key: "nodes/" + path, Value: []byte("{}")}
				}); err != nil {
					t.Fatal(err)
				}
				r.Resume()
				synctest.Wait()
				s, ok := r.Of("t/a")
				if ok != (c.left > 0) || ok && time.Until(s.Deadline) != c.left || suspended != c.suspend {
					t.Errorf("the drain is %+v, suspended: %v", s, suspended)
				}
				if c.event == "" {
					r.wants("")
				} else if r.wants("", c.event); r.stored() > 0 {
					t.Error("it is still stored")
				}
			})
		})
	}
}

func renewed(r *harness) { r.Renew("t/a", 3, "", time.Minute, false) }
func surplus(r *harness) { r.BeginSurplus("t/a", 3, "", time.Minute) }

// A clock that was set back does not extend a drain.
func TestClockSetBack(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		saved time.Time
		want  time.Duration
	}{
		"right":    {now.Add(-time.Minute), time.Hour},
		"set back": {now.Add(time.Hour - time.Minute), time.Minute},
	} {
		r := record{Until: now.Add(time.Hour), SavedAt: c.saved}
		if got := r.left(); got > c.want || got < c.want-time.Minute/2 {
			t.Errorf("%s: %v are left, want %v", name, got, c.want)
		}
	}
}

// The nudge is typed into a terminal, so it must contain nothing that is special to a shell.
func TestNudgeText(t *testing.T) {
	if !regexp.MustCompile(`^[a-zA-Z .,:-]*$`).MatchString(nudgeText) {
		t.Errorf("%q has characters that a nudge leaves out", nudgeText)
	}
}
