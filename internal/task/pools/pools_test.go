package pools

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fails returns a failed attempt at a task.
func fails(task string, after time.Duration, kind outcome.ObstacleKind) Attempt {
	return Attempt{Task: task, EndedAt: begin.Add(after), Failed: true, Outcome: outcome.Report{
		Kind: outcome.Retryable, Context: &outcome.Context{Obstacle: outcome.Obstacle{Kind: kind}},
	}}
}

// Failures of different tasks within the time of the limit pause a pool.
func TestFailuresPause(t *testing.T) {
	limit := Limit{3, 5 * time.Minute}
	for name, tt := range map[string]struct {
		at     []time.Duration
		paused bool
	}{
		"within": {[]time.Duration{0, time.Minute, 5 * time.Minute}, true},
		"slowly": {[]time.Duration{0, time.Minute, 5*time.Minute + 1, 9 * time.Minute}, false},
		"late":   {[]time.Duration{0, 3 * time.Minute, 6 * time.Minute, 7 * time.Minute}, true},
	} {
		p, e := New("p"), Effect{}
		for i, at := range tt.at {
			p, e = p.Ended(fails(fmt.Sprint("t-", i), at, outcome.Timeout), limit)
		}
		if e.Paused != tt.paused || (p.State == Paused) != tt.paused || !e.Changed || p.Empty() {
			t.Errorf("%s: %+v %+v", name, e, p)
		}
	}
	p := New("p")
	for i := range 200 { // a limit of 0 is none, and what is kept is bounded
		p, _ = p.Ended(fails(fmt.Sprint("t-", i), 0, outcome.Timeout), Limit{0, time.Hour})
	}
	if p.State != Open || len(p.Failures) != maxFailures {
		t.Errorf("%s with %d failures", p.State, len(p.Failures))
	}
	p = New("p")
	for range 4 {
		p, _ = p.Ended(fails("t-1", 0, outcome.Timeout), Limit{2, time.Hour})
	}
	if p.State != Open || len(p.Failures) != 1 {
		t.Errorf("one task alone: %+v", p)
	}
}

// The end of an attempt changes a pool by its state, and never the Pool before.
func TestEnded(t *testing.T) {
	one := []Failure{{Task: "t-1", At: begin, Outcome: outcome.Retryable, Obstacle: outcome.Network}}
	open := Pool{Name: "p", State: Open, Failures: one}
	paused := Pool{Name: "p", State: Paused, By: Controller, Reason: "why", Failures: one}
	probes := Pool{Name: "p", State: Probes, By: Controller, Probe: "t-2", Probes: 1, Failures: one}
	well := Attempt{Task: "t-2", EndedAt: begin, Outcome: outcome.Report{Kind: outcome.Completed}}
	stopped := Attempt{Task: "t-2", EndedAt: begin, Stopped: true, Outcome: outcome.Report{Kind: outcome.Deferred}}
	elsewhere := well
	fails2 := fails("t-2", 1, outcome.Network)
	elsewhere.Task = "t-3"
	for name, tt := range map[string]struct {
		before  Pool
		attempt Attempt
		state   State
		probe   string
		effect  Effect
	}{
		"open, well":           {open, well, Open, "", Effect{}},
		"open, stopped":        {open, stopped, Open, "", Effect{}},
		"open, fails":          {open, fails2, Paused, "", Effect{Changed: true, Paused: true}},
		"paused, well":         {paused, well, Paused, "", Effect{}},
		"paused, fails":        {paused, fails2, Paused, "", Effect{Changed: true}},
		"probe, well":          {probes, well, Open, "", Effect{Changed: true, Opened: true}},
		"probe, stopped":       {probes, stopped, Probes, "", Effect{Changed: true}},
		"probe, fails":         {probes, fails2, Paused, "", Effect{Changed: true, Paused: true}},
		"probing, another one": {probes, elsewhere, Probes, "t-2", Effect{}},
		"probing, others fail": {probes, fails("t-3", 1, outcome.Crash), Probes, "t-2", Effect{Changed: true}},
	} {
		was := fmt.Sprintf("%+v", tt.before)
		p, e := tt.before.Ended(tt.attempt, Limit{2, time.Hour})
		if p.State != tt.state || p.Probe != tt.probe || e != tt.effect {
			t.Errorf("%s: %+v %+v", name, e, p)
		}
		if got := fmt.Sprintf("%+v", tt.before); got != was {
			t.Errorf("%s: the pool before is %s", name, got)
		}
		if !e.Changed && !reflect.DeepEqual(p, tt.before) {
			t.Errorf("%s: %+v is another pool, and not stored", name, p)
		}
	}
}

// A pool whose failures were all outside of the work probes without a person, after a pause that doubles.
func TestProbeAt(t *testing.T) {
	p, _ := New("p").Ended(fails("t-1", 0, outcome.Overloaded), Limit{1, time.Hour})
	for _, pause := range []time.Duration{15, 30, 60, 120, 120} {
		pause *= time.Minute
		if got := p.ProbeAt.Sub(p.Since); p.State != Paused || got != pause {
			t.Fatalf("%s, and probes after %v, want %v", p.State, got, pause)
		}
		if p.Claimable(p.ProbeAt.Add(-1), false) || !p.Claimable(p.ProbeAt, false) {
			t.Errorf("it is not claimable from %v on", p.ProbeAt)
		}
		p, _ = p.Claimed("t-2").Ended(fails("t-2", 0, outcome.Network), Limit{1, time.Hour})
	}
	p, _ = p.Claimed("t-2").Ended(fails("t-2", 0, outcome.VerificationFailed), Limit{1, time.Hour})
	if !p.ProbeAt.IsZero() || p.Claimable(begin.Add(1000*time.Hour), false) {
		t.Errorf("it waits for no person: %+v", p)
	}
}

// What a person does to a pool depends on who has paused it.
func TestPauseAndResume(t *testing.T) {
	open := New("p")
	if p, changed := open.Resume(); changed || !reflect.DeepEqual(p, open) {
		t.Errorf("resumed while open: %+v", p)
	}
	if p := open.Claimed("t-1"); !reflect.DeepEqual(p, open) || !p.Claimable(begin, true) || !p.Empty() {
		t.Errorf("claimed while open: %+v", p)
	}
	paused, changed := open.Pause("ann", "deploy", begin)
	if want := (Pool{Name: "p", State: Paused, By: "ann", Reason: "deploy", Since: begin}); !changed ||
		!reflect.DeepEqual(paused, want) || paused.ByDaemon() || paused.Claimable(begin, false) {
		t.Errorf("%+v", paused)
	}
	if p, changed := paused.Pause("bob", "", begin); changed || p.By != "ann" {
		t.Errorf("paused twice: %+v", p)
	}
	if p, changed := paused.Resume(); !changed || !reflect.DeepEqual(p, open) {
		t.Errorf("resumed by a person: %+v", p)
	}
	failed, _ := open.Ended(fails("t-1", 0, outcome.Overloaded), Limit{1, time.Hour})
	if p, changed := failed.Pause("ann", "deploy", begin); !changed || p.By != "ann" || !p.ProbeAt.IsZero() {
		t.Errorf("a person takes it over: %+v", p)
	}
	probes, changed := failed.Resume()
	if !changed || probes.State != Probes || probes.Probe != "" || !probes.ProbeAt.IsZero() || !probes.ByDaemon() ||
		!probes.Claimable(begin, false) || probes.Claimable(begin, true) {
		t.Errorf("%+v", probes)
	}
	if p, changed := probes.Resume(); changed || !reflect.DeepEqual(p, probes) {
		t.Errorf("resumed while it probes: %+v", p)
	}
}
