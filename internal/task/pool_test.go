package task

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// newPoolBench returns a bench whose pools are paused after three tasks have failed within 5 minutes, and tasks of the
// pool p.
func newPoolBench(t *testing.T, n int) (*bench, []string) {
	b := newBench(t)
	b.config.PoolLimit = func() pools.Limit { return pools.Limit{Max: 3, Within: 5 * time.Minute} }
	b.config.MaxClaims = func() int { return 0 }
	var ids []string
	for range n {
		ids = append(ids, b.add(Draft{Title: "x", Pool: "p"}))
	}
	return b, ids
}

func (b *bench) pool() pools.Pool { return b.State.pool("p") }

func (b *bench) fails(id string, kind outcome.ObstacleKind) *Step {
	b.Helper()
	return b.attempt(id, outcome.Report{Kind: outcome.Retryable, Context: met(kind)})
}

// Seed 003, section 1: three tasks that fail within 5 minutes pause the queue, whatever their obstacles, until a person
// resumes it. The first task after that is a probe, which decides.
func TestPoolPauses(t *testing.T) {
	b, ids := newPoolBench(t, 5)
	elsewhere, mine := b.add(Draft{Title: "y", Pool: "q"}), b.add(Draft{Title: "z", Pool: "p", Assignee: coder.Path})
	for range 4 { // one task alone is not the queue
		b.fails(ids[0], outcome.VerificationFailed)
	}
	b.fails(ids[1], outcome.Timeout)
	b.wantStates("ready ready ready", ids[:3]...)
	s := b.attempt(ids[2], outcome.Report{Kind: outcome.Escalated, Context: met(outcome.GuardDenied), Question: "?"})
	last := s.Events[len(s.Events)-1]
	const reason = "3 tasks have failed within 5m0s: web-f6f (verification failed), web-tgh (timeout), web-9ny " +
		"(guard denied)"
	if last.Kind != PoolIsPaused || last.Pool == nil || last.Note != b.pool().Reason {
		t.Errorf("%+v", last)
	}
	for i, id := range ids[:3] {
		if !strings.Contains(last.Note, id+" (") {
			t.Errorf("task %d is not in %q (like %q)", i, last.Note, reason)
		}
	}
	b.wantStates("waits waits parked waits waits ready ready", ids[0], ids[1], ids[2], ids[3], ids[4], elsewhere, mine)
	if got := b.task(ids[3]); !got.Paused {
		t.Errorf("%+v", got)
	}
	if got := b.pool(); got.State != pools.Paused || got.By != controller || !got.ProbeAt.IsZero() {
		t.Errorf("%+v", got)
	}
	_, err := b.try(func(s *Step) error { return ignored(s.Claim(coder, Claiming{ID: ids[3]})) })
	if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "3 tasks have failed") {
		t.Errorf("%v", err)
	}
	if _, err := b.try(func(s *Step) error {
		return ignored(s.Claim(coder,
			Claiming{Pools: []string{"p"}}))
	}); err != nil {
		t.Errorf("the task that is assigned to it: %v", err)
	}
	b.do(func(s *Step) error { return ignored(s.Claim(ann, Claiming{ID: ids[4]})) }) // a person may
	b.do(func(s *Step) error { return ignored(s.Release(ann, ids[4], "")) })

	resume := func() {
		t.Helper()
		b.do(func(s *Step) error { _, err := s.ResumePool(ann, "p"); return err })
		b.wantStates("ready ready", ids[0], ids[3])
	}
	resume()
	b.do(func(s *Step) error { return ignored(s.Release(ann, mine, "")) })
	b.do(func(s *Step) error { return ignored(s.Claim(coder, Claiming{ID: mine})) })
	if got := b.pool(); got.Probe != "" {
		t.Errorf("a task that is assigned to an agent is the probe: %+v", got)
	}
	b.claim(ids[3]) // the probe
	b.wantStates("waits in_progress", ids[0], ids[3])
	if got := b.pool(); got.State != pools.Probes || got.Probe != ids[3] {
		t.Errorf("%+v", got)
	}
	if _, err := b.report(ids[3], outcome.Report{Kind: outcome.Retryable, Context: met(outcome.Crash)}); err != nil {
		t.Fatal(err)
	}
	if got := b.pool(); got.State != pools.Paused || !strings.Contains(got.Reason,
		"was tried has failed again: "+ids[3]+" (crash)") {
		t.Errorf("%+v", got)
	}
	b.wantStates("waits waits", ids[0], ids[3])
	resume()
	b.attempt(ids[3], outcome.Report{Kind: outcome.Completed})
	b.wantStates("ready ready completed ready", ids[0], ids[1], ids[3], ids[4])
	if p := b.pool(); p.State != pools.Open || len(p.Failures) > 0 || p.Probes > 0 {
		t.Errorf("%+v", p)
	}
}

// Deferred and blocked attempts, those that were taken from their agents, and old failures do not count.
func TestWhatPausesAPool(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for name, r := range map[string]outcome.Report{
		"completed":  {Kind: outcome.Completed},
		"deferred":   {Kind: outcome.Deferred, NotBefore: &later, Context: met("other")},
		"decomposed": {Kind: outcome.Decomposed, Subtasks: subtasks(1), Context: met("other")},
		"blocked": {Kind: outcome.Blocked, Context: met("other"),
			Condition: &outcome.Condition{Kind: outcome.PersonHas, What: "x"}},
	} {
		b, ids := newPoolBench(t, 6)
		for _, id := range ids {
			b.attempt(id, r)
		}
		if len(b.pools) > 0 {
			t.Errorf("%s: %+v", name, b.pool())
		}
	}
	b, ids := newPoolBench(t, 6)
	for _, id := range ids {
		b.claim(id)
	}
	b.End(coder.Path, 1, Exit{Cause: "shutdown"})
	b.do(func(s *Step) error { return s.ReleaseOrphans(coder.Path, 10) })
	if len(b.pools) > 0 {
		t.Errorf("stopped: %+v", b.pool())
	}
}

// If all failures were outside of the work, such as an overloaded server, the pool probes without a person, after a
// pause that doubles.
func TestPoolProbesAlone(t *testing.T) {
	b, ids := newPoolBench(t, 4)
	now := time.Now()
	for _, id := range ids[:3] {
		b.fails(id, outcome.Overloaded)
	}
	for _, pause := range []time.Duration{15, 30, 60, 120, 120} {
		pause *= time.Minute
		p := b.pool()
		if got := p.ProbeAt.Sub(p.Since); p.State != pools.Paused || got != pause {
			t.Fatalf("%s, and probes after %v, want %v", p.State, got, pause)
		}
		if at, ok := b.NextTime(); !ok || !at.Equal(p.ProbeAt) {
			t.Errorf("the next time is %v", at)
		}
		b.Advance(p.ProbeAt.Add(-1))
		b.wantStates("waits", ids[3])
		b.Advance(p.ProbeAt)
		b.wantStates("ready", ids[3])
		b.fails(ids[3], outcome.Network)
		b.Advance(now)
	}
	b.fails(b.add(Draft{Title: "y", Pool: "q"}), outcome.Crash)
	b.do(func(s *Step) error { _, err := s.ResumePool(ann, "p"); return err })
	b.fails(ids[3], outcome.VerificationFailed) // now it waits for a person
	if p := b.pool(); p.State != pools.Paused || !p.ProbeAt.IsZero() {
		t.Errorf("%+v", p)
	}
}

// A probe that ends without a word, is moved away or removed lets another one decide.
func TestProbeIsLost(t *testing.T) {
	for name, lose := range map[string]func(*bench, string){
		"taken": func(b *bench, id string) {
			b.do(func(s *Step) error { return ignored(s.Release(ann, id, "")) })
		},
		"moved": func(b *bench, id string) {
			b.do(func(s *Step) error { return ignored(s.Edit(ann, id, Edit{Pool: new("q")})) })
		},
		"closed by an import": func(b *bench, id string) {
			r := *b.Record(id)
			r.Status, r.Claim = Closed, nil
			b.do(func(s *Step) error { return s.Import(&r, b.Record(id), nil) })
		},
	} {
		b, ids := newPoolBench(t, 5)
		for _, id := range ids[:3] {
			b.fails(id, outcome.Crash)
		}
		b.do(func(s *Step) error { _, err := s.ResumePool(ann, "p"); return err })
		b.claim(ids[3])
		b.wantStates("waits", ids[4])
		lose(b, ids[3])
		b.Advance(time.Now())
		if got := b.states(ids[4]); got != "ready" {
			t.Errorf("%s: %s", name, got)
		}
		b.attempt(ids[4], outcome.Report{Kind: outcome.Completed})
		if p := b.pool(); p.State != pools.Open || len(p.Failures) > 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A person may pause a pool. Resuming that needs no probe.
func TestPausedByAPerson(t *testing.T) {
	b, ids := newPoolBench(t, 2)
	pause := func() { b.do(func(s *Step) error { _, err := s.PausePool(ann, "p", "deploy"); return err }) }
	pause()
	pause()
	if got := b.pool(); got.By != "ann" || got.Reason != "deploy" {
		t.Errorf("%+v", got)
	}
	b.wantStates("waits waits", ids...)
	b.do(func(s *Step) error { _, err := s.ResumePool(ann, "p"); return err })
	b.claim(ids[0])
	b.wantStates("ready", ids[1])
	for name, act := range map[string]func(*Step) error{
		"pause":  func(s *Step) error { _, err := s.PausePool(coder, "p", ""); return err },
		"resume": func(s *Step) error { _, err := s.ResumePool(coder, "p"); return err },
	} {
		if _, err := b.try(act); !errors.Is(err, ErrConflict) {
			t.Errorf("an agent may %s: %v", name, err)
		}
	}
	if _, err := b.try(func(s *Step) error { _, err := s.PausePool(ann, "", ""); return err }); !errors.Is(err,
		ErrInvalid) {
		t.Errorf("no pool: %v", err)
	}
}
