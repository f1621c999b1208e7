package quota

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/limits"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// asker answers questions as a test says, each after a second.
type asker struct {
	mu     sync.Mutex
	asked  []string // accounts
	now    int      // questions under way
	most   int      // of these at the same time
	answer limits.Answer
	err    error
}

func (a *asker) ask(ctx context.Context, path, account string, argv []string) (limits.Answer, error) {
	a.mu.Lock()
	a.asked = append(a.asked, account)
	a.now++
	a.most = max(a.most, a.now)
	answer, err := a.answer, a.err
	a.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		err = ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now--
	return answer, err
}

// wants expects so many questions since the last call.
func (a *asker) wants(t *testing.T, n int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.asked) != n {
		t.Errorf("asked about %q, expected %d questions", a.asked, n)
	}
	a.asked = nil
}

// usedUntil is the answer of an account whose limit of 5 hours is used up.
func usedUntil(resets time.Time) limits.Answer {
	return limits.Answer{Windows: []agentcli.Window{
		{Name: limits.FiveHour, Used: 1, Resets: resets},
		{Name: limits.SevenDay, Used: 0.25, Resets: resets.AddDate(0, 0, 3)},
	}}
}

// newAskingHarness is a harness without [[quota]] whose agents may be asked about, in a synctest bubble.
func newAskingHarness(t *testing.T) (*harness, *asker) {
	h := newHarness(t, memory.New())
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		if err := h.log.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h.fleet.f.Quotas = nil
	for path := range h.fleet.f.Agents {
		h.fleet.f.Agents[path] = &spec.Agent{Command: []string{"claude", "-p"}}
	}
	a := &asker{}
	h.AskAccount, h.Go, h.random = a.ask, func(do func(context.Context)) { go do(ctx) }, noJitter
	return h, a
}

// parks expects an agent to wait until a time.
func (h *harness) parks(path string, until time.Time) {
	h.t.Helper()
	err := h.Admit(h.t.Context(), path)
	retry, ok := errors.AsType[*supervisor.RetryError](err)
	if !ok || !retry.At.Equal(until) {
		h.t.Fatalf("%s: %v, expected it to wait until %v", path, err, until)
	}
}

// All agents of an account wait for one answer. If the account is used up, all wait for the reset, without a run; then
// one tries, and nothing is asked.
func TestAskFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := newAskingHarness(t)
		resets := time.Now().Add(2 * time.Hour)
		a.answer = usedUntil(resets)
		var both sync.WaitGroup
		for _, path := range []string{"t/a", "t/b"} {
			both.Go(func() { h.parks(path, resets) })
		}
		time.Sleep(time.Second / 2)
		if text := h.Explain("t/a"); text != "claude is asked what is left of account claude" {
			t.Error(text)
		}
		both.Wait()
		a.wants(t, 1)
		i := h.Pools()[0]
		if i.State != Parked || i.Reason != "the limit of 5 hours is used up, as claude has said before a run" ||
			i.ResetFrom != "reported by claude for its account" || len(i.Waiting) != 2 || h.Explain("t/a") != "" {
			t.Errorf("%+v", i)
		}
		if len(i.Used) != 2 || i.Used[0].Used != 1 || i.Used[1] != (Window{Name: limits.SevenDay, Used: 0.25,
			Reset: resets.AddDate(0, 0, 3)}) || !i.Told.Equal(time.Now()) {
			t.Errorf("%+v", i)
		}
		time.Sleep(time.Until(resets))
		h.starts("t/a", "claude")
		a.wants(t, 0)
		if i := h.Pools()[0]; i.State != Probing || len(i.Used) != 1 { // the other has been reset
			t.Errorf("%+v", i)
		}
	})
}

// An account is asked about again when nothing was heard of it for some time.
func TestAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := newAskingHarness(t)
		for _, c := range []struct {
			name string
			do   func()
			asks int
		}{
			{"at first", func() {}, 1},
			{"known", func() { time.Sleep(fresh - time.Second) }, 0},
			{"stale", func() { time.Sleep(time.Second) }, 1},
			{"the model answers", func() { time.Sleep(fresh); h.Answered("t/b", time.Now()) }, 0},
			{"its limits are told", func() { time.Sleep(fresh); h.Told("t/b", nil) }, 0},
			{"a run has ended", func() {
				time.Sleep(fresh)
				completed := agentcli.Verdict{Kind: outcome.Completed}
				if err := h.Ended("t/b", agentcli.Record{Verdict: completed}); err != nil {
					t.Error(err)
				}
			}, 0},
			{"a run was stopped", func() { time.Sleep(fresh); h.Gone("t/b") }, 1},
			{"a script", func() {
				time.Sleep(fresh)
				h.fleet.f.Agents["t/a"] = &spec.Agent{Command: []string{"./claude.sh"}, CLI: agentcli.Claude}
			}, 0},
		} {
			c.do()
			if h.starts("t/a", "claude"); t.Failed() {
				t.Fatal(c.name)
			}
			a.wants(t, c.asks)
		}
	})
}

// An account that cannot be asked about is used, and not asked about again for some time.
func TestAskInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := newAskingHarness(t)
		a.err = limits.ErrNoPlan
		h.starts("t/a", "claude")
		time.Sleep(muted - time.Second)
		h.starts("t/a", "claude")
		a.wants(t, 1)
		time.Sleep(time.Second)
		h.starts("t/a", "claude")
		a.wants(t, 1)
		if all := h.All(); len(all) != 0 {
			t.Errorf("%+v", all)
		}
	})
}

// Before a try whose reset is not known, claude is asked; not if a person wants the try.
func TestAskBeforeTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := newAskingHarness(t)
		h.starts("t/a", "claude")
		limit := func(path string) {
			if err := h.Ended(path, met(outcome.UsageLimit, time.Time{})); err == nil {
				t.Error("no limit")
			}
		}
		limit("t/a")
		a.wants(t, 1)
		time.Sleep(firstTry)
		h.starts("t/a", "claude") // nothing is told
		a.wants(t, 1)
		limit("t/a")
		resets := time.Now().Add(2 * time.Hour)
		a.answer = usedUntil(resets)
		time.Sleep(2 * firstTry)
		h.parks("t/b", resets)
		a.wants(t, 1)
		if i := h.Pools()[0]; i.Tries != 1 || i.Agent != "t/b" {
			t.Errorf("%+v", i)
		}
		for range 2 { // the reset is known, and then not
			time.Sleep(time.Minute)
			if err := h.Resume("claude"); err != nil {
				t.Fatal(err)
			}
			h.starts("t/b", "claude")
			limit("t/b")
		}
		a.wants(t, 0)
	})
}

// An agent whose account is used up goes on with the next one, about which is asked, too.
func TestAskNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := newAskingHarness(t)
		h.fleet.f.Quotas = []spec.Quota{
			{Name: "main", CLI: agentcli.Claude, Next: "spare"}, {Name: "spare", CLI: agentcli.Claude},
		}
		h.AskAccount = func(ctx context.Context, path, account string, argv []string) (limits.Answer, error) {
			answer, err := a.ask(ctx, path, account, argv)
			if account == "main" {
				answer = usedUntil(time.Now().Add(time.Hour))
			}
			return answer, err
		}
		h.starts("t/a", "spare")
		a.wants(t, 2)
	})
}

// Few are asked at the same time, and a start that is cancelled does not wait for an answer.
func TestAskBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := newAskingHarness(t)
		for _, key := range []string{"1", "2", "3", "4", "5"} {
			h.fleet.f.Agents["t/"+key] = &spec.Agent{
				Command: []string{"claude", "-p"}, Env: map[string]string{"ANTHROPIC_API_KEY": key},
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		began := time.Now()
		var all sync.WaitGroup
		for path := range h.fleet.f.Agents {
			all.Go(func() {
				if err := h.Admit(ctx, path); !errors.Is(err, stopped) && err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(3 * time.Second / 2)
		cancel(stopped)
		all.Wait()
		if took := time.Since(began); took != 3*time.Second/2 {
			t.Errorf("they have waited for %v", took)
		}
		time.Sleep(time.Minute)
		if a.wants(t, 6); a.most != maxAsks {
			t.Errorf("%d questions at the same time", a.most)
		}
	})
}

// What is known of accounts that are gone is dropped.
func TestForgetLeft(t *testing.T) {
	h := newHarness(t, memory.New())
	h.fleet.f.Agents["t/plain"] = &spec.Agent{Command: []string{"x"}}
	h.Told("t/a", usedUntil(time.Now().Add(time.Hour)).Windows)
	h.Told("t/plain", nil)
	h.Told("t/a", []agentcli.Window{{Name: "unknown", Used: -1, Resets: time.Now().Add(time.Hour)}})
	if all := h.All(); len(all) != 2 || len(all[0].Used) != 2 || all[0].Told.IsZero() || len(h.left) != 2 {
		t.Errorf("%+v, %v", all, h.left)
	}
	h.fleet.f.Quotas = nil
	delete(h.fleet.f.Agents, "t/plain")
	if h.Apply(); len(h.left) != 0 {
		t.Errorf("%v", h.left)
	}
	h.Told("t/a", usedUntil(time.Now().Add(time.Hour)).Windows)
	if all := h.All(); len(all) != 1 || all[0].Name != "claude" || all[0].State != Open || len(all[0].Used) != 2 {
		t.Errorf("%+v", all)
	}
	if all := h.Pools(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}
