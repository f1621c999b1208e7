package supervisor

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawSpec makes any valid spec of a few children, with small numbers so that things meet.
func drawSpec(t *rapid.T, strategies ...Strategy) Spec {
	s := Spec{
		Strategy:     rapid.SampledFrom(strategies).Draw(t, "strategy"),
		Limit:        drawLimit(t),
		StartFailure: rapid.SampledFrom([]StartFailure{Rollback, Retry}).Draw(t, "start failure"),
		AutoShutdown: rapid.SampledFrom([]AutoShutdown{NeverShutdown, NeverShutdown, AnySignificant, AllSignificant, WhenDone}).Draw(t, "auto"),
	}
	n := rapid.IntRange(0, 5).Draw(t, "children")
	if s.Strategy == SimpleOneForOne {
		n = 1
	}
	for i := range n {
		s.Children = append(s.Children, drawChild(t, s, string(rune('a'+i))))
	}
	return s
}

func drawChild(t *rapid.T, s Spec, id string) ChildSpec {
	c := ChildSpec{
		ID: id, Run: idle,
		Restart:   rapid.SampledFrom([]Restart{Permanent, Permanent, Transient, Temporary}).Draw(t, "restart"),
		WaitReady: rapid.Bool().Draw(t, "ready"),
		OnAbandon: rapid.SampledFrom([]Abandon{Proceed, Proceed, Fail}).Draw(t, "abandon"),
	}
	if rapid.Bool().Draw(t, "delayed") {
		c.Backoff = Backoff{Kind: rapid.SampledFrom([]BackoffKind{Fixed, Linear, Exponential}).Draw(t, "backoff"), StableAfter: 5 * time.Second}
	}
	if rapid.IntRange(0, 3).Draw(t, "own limit") == 0 {
		c.Limit = drawLimit(t)
	}
	c.Significant = c.Restart != Permanent && (s.AutoShutdown == AnySignificant || s.AutoShutdown == AllSignificant) && rapid.Bool().Draw(t, "significant")
	return c
}

func drawLimit(t *rapid.T) Limit {
	l := Limit{
		Max:     rapid.IntRange(0, 4).Draw(t, "max"),
		Within:  time.Duration(rapid.IntRange(0, 20).Draw(t, "within")) * time.Second,
		Count:   rapid.SampledFrom([]Count{CountRestarts, CountStarts, CountConsecutive, CountFailures}).Draw(t, "count"),
		Scope:   rapid.SampledFrom([]Scope{ScopeSupervisor, ScopeChild}).Draw(t, "scope"),
		OnLimit: rapid.SampledFrom([]LimitAction{Escalate, Escalate, Quarantine, GiveUp, Pause}).Draw(t, "then"),
	}
	if l.OnLimit == Quarantine {
		l.Max, l.Within = max(l.Max, 1), max(l.Within, time.Second)
	}
	return l
}

// machine does random things to a core, and knows what must hold after each.
type machine struct {
	*rig
	strategy Strategy
	limit    Limit
	restarts []time.Duration // that counted for the supervisor's limit
	seen     int
}

func (m *machine) pick(t *rapid.T, what string, ok func(*child) bool) *child {
	var all []*child
	for c := m.k.head; c != nil; c = c.next {
		if ok(c) {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		t.Skip("no " + what)
	}
	return rapid.SampledFrom(all).Draw(t, what)
}

func (m *machine) actions() map[string]func(*rapid.T) {
	living := func(c *child) bool { return c.state.alive() }
	any := func(*child) bool { return true }
	in := func(s State) func(*child) bool { return func(c *child) bool { return c.state == s } }
	return map[string]func(*rapid.T){
		"exit": func(t *rapid.T) {
			c := m.pick(t, "living", living)
			e := rapid.SampledFrom([]Exit{fine, asked, boom, boom, {Kind: Killed}, {Kind: Panicked, Err: errBoom}}).Draw(t, "exit")
			if c.state == Starting {
				e = rapid.SampledFrom([]Exit{boom, {Kind: Failure, Err: ErrIgnore}, fine}).Draw(t, "start")
			}
			m.exit(c.id, e)
		},
		"ready":     func(t *rapid.T) { m.ready(m.pick(t, "starting", in(Starting)).id) },
		"late":      func(t *rapid.T) { m.late(m.pick(t, "starting", in(Starting)).id) },
		"gone":      func(t *rapid.T) { m.gone(m.pick(t, "stopping", in(Stopping)).id) },
		"abandon":   func(t *rapid.T) { m.abandon(m.pick(t, "stopping", in(Stopping)).id) },
		"terminate": func(t *rapid.T) { m.terminate(m.pick(t, "child", any).id) },
		"suspend":   func(t *rapid.T) { m.suspend(m.pick(t, "child", any).id) },
		"reset": func(t *rapid.T) {
			m.verify(t)
			m.reset(m.pick(t, "child", any).id)
			m.restarts = nil // at least some no longer count
		},
		"restart": func(t *rapid.T) {
			c := m.pick(t, "child", any)
			if m.strategy == SimpleOneForOne {
				t.Skip("not for pools")
			}
			m.restart(c.id)
		},
		"renew": func(t *rapid.T) {
			c := m.pick(t, "child", any)
			if m.strategy == SimpleOneForOne {
				t.Skip("not for pools")
			}
			switch rapid.IntRange(0, 3).Draw(t, "how") {
			case 0:
				m.renew(c.id)
			case 1:
				m.renewCounted(c.id)
			case 2:
				m.ensure(c.id)
			case 3:
				m.restartCounted(c.id)
			}
		},
		"delete": func(t *rapid.T) {
			c := m.pick(t, "child", any)
			if m.strategy == SimpleOneForOne {
				t.Skip("not for pools")
			}
			m.remove(c.id)
		},
		"add": func(t *rapid.T) {
			id := rapid.SampledFrom([]string{"v", "w", "x", "y", "z"}).Draw(t, "id")
			if m.strategy == SimpleOneForOne {
				m.instance(id)
				return
			}
			m.add(drawChild(t, Spec{AutoShutdown: m.k.auto}, id))
		},
		"resume": func(t *rapid.T) { m.verify(t); m.resume(); m.restarts = nil },
		"time":   func(t *rapid.T) { m.advance(time.Duration(rapid.IntRange(0, 15).Draw(t, "seconds")) * time.Second) },
		"update": func(t *rapid.T) {
			if m.k.op != opNone || rapid.IntRange(0, 3).Draw(t, "rarely") != 0 {
				t.Skip("not now")
			}
			s := drawSpec(t, OneForOne, OneForAll, RestForOne)
			if m.strategy == SimpleOneForOne {
				s = drawSpec(t, SimpleOneForOne)
			}
			m.strategy, m.limit, m.restarts = s.Strategy, s.Limit, nil
			m.update(s)
		},
		"stop": func(t *rapid.T) {
			if rapid.IntRange(0, 20).Draw(t, "rarely") == 0 {
				m.stop()
			}
		},
		"kill": func(t *rapid.T) {
			if rapid.IntRange(0, 20).Draw(t, "rarely") == 0 {
				m.kill()
			}
		},
		"": func(t *rapid.T) { m.verify(t) },
	}
}

// verify is what holds between any two steps.
func (m *machine) verify(t *rapid.T) {
	if err := m.invalid(); err != nil {
		t.Fatalf("%v; %s", err, m.states())
	}
	if err := m.stuck(); err != nil {
		t.Fatalf("%v; %s", err, m.states())
	}
	k := m.k
	if k.op == opDown && !m.ended && k.tally.alive == 0 {
		t.Fatalf("nothing lives, and it has not ended; %s", m.states())
	}
	if m.ended && len(m.lives) > 0 {
		t.Fatalf("ended, and some live; %s", m.states())
	}
	// A group is stopped one at a time, backwards, and started one at a time, forwards.
	starting, stopping := 0, 0
	for c := k.head; c != nil; c = c.next {
		if c.state == Starting && c.origin == originGroup {
			starting++
		}
		if c.state == Stopping && c.plan == planWait {
			stopping++
		}
		if c.state == Quarantined && k.op != opDown {
			if l, _ := k.governs(c); l.OnLimit == Quarantine && k.now > m.due[c] {
				t.Fatalf("%s is quarantined for too long", c.id)
			}
		}
	}
	if (k.strategy == OneForAll || k.strategy == RestForOne) && starting > 1 {
		t.Fatalf("%d start at once; %s", starting, m.states())
	}
	// No more than Max restarts within a window, where the limit says so.
	for ; m.seen < len(m.rig.seen); m.seen++ {
		var d Decision
		switch e := m.rig.seen[m.seen].(type) {
		case ChildExited:
			d = e.Decision
		case ChildStartFailed:
			d = e.Decision
		}
		c := k.byID[m.rig.seen[m.seen].Header().ID]
		if d.Action != RestartIt || d.Reason == ReasonSibling || c == nil || c.policy.limit != (Limit{}) {
			continue
		}
		m.restarts = append(m.restarts, m.rig.seen[m.seen].Header().Time.Sub(k.epoch))
	}
	if l := m.limit; l.Count == CountRestarts && l.Scope == ScopeSupervisor && l.OnLimit == Escalate && l.Max > 0 && l.Within > 0 {
		if n := len(m.restarts); n > l.Max && m.restarts[n-1]-m.restarts[n-1-l.Max] <= l.Within {
			t.Fatalf("%d restarts within %v", l.Max+1, m.restarts[n-1]-m.restarts[n-1-l.Max])
		}
	}
	if len(m.rig.seen) > 1<<12 {
		m.rig.seen, m.seen = nil, 0
	}
}

// finish: whatever has happened, a stop ends it once the children have ended.
func (m *machine) finish(t *rapid.T) {
	m.stop()
	for !m.ended {
		var c *child
		for x := m.k.head; x != nil; x = x.next {
			if x.state == Stopping {
				c = x
			}
		}
		if c == nil {
			t.Fatalf("a stop waits for no child; %s", m.states())
			return
		}
		m.gone(c.id)
		m.verify(t)
	}
}

func TestModelOfTheCore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := drawSpec(rt, OneForOne, OneForAll, RestForOne, SimpleOneForOne)
		m := &machine{strategy: spec.Strategy, limit: spec.Limit}
		m.rig = newRig(fatal{t, rt}, spec)
		m.auto = rapid.Bool().Draw(rt, "children end at once")
		rt.Repeat(m.actions())
		m.finish(rt)
	})
}

// Only failures bring a child nearer to a limit that counts starts: whatever
// people and changes of the configuration do in between, the window is what a
// list of the starts after failures says.
func TestModelOfCountedStarts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := Quarantining(rapid.IntRange(1, 4).Draw(rt, "max"), time.Duration(rapid.IntRange(1, 600).Draw(rt, "seconds"))*time.Second)
		r := newRig(fatal{t, rt}, limited(one("a"), l))
		r.auto = true
		counted, took := []time.Duration{0}, true // the starts in the window; whether the last start is one
		drop := func() {
			for len(counted) > 0 && r.k.now-counted[0] > l.Within {
				counted = counted[1:]
			}
		}
		failed := func() {
			if took = len(counted) < l.Max; took {
				counted = append(counted, r.k.now)
			}
		}
		asked := func() { // to start without a failure
			if took = len(counted) == 0; took {
				counted = append(counted, r.k.now)
			}
		}
		live := func(t *rapid.T) {
			if r.child("a").state != Running {
				t.Skip("does not run")
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"crash": func(t *rapid.T) { live(t); r.crash("a"); failed() },
			"end well": func(t *rapid.T) {
				live(t)
				if long := r.k.now-r.child("a").began >= DefaultStableAfter; long && took && len(counted) > 0 {
					counted = counted[:len(counted)-1]
				}
				r.exit("a", fine)
				failed()
			},
			"restart by hand": func(*rapid.T) {
				r.suspend("a")
				r.restart("a")
				counted, took = []time.Duration{r.k.now}, true
			},
			"reset": func(*rapid.T) {
				held := r.child("a").state == Quarantined
				r.reset("a")
				if counted, took = nil, false; held {
					failed()
				}
			},
			"renew": func(t *rapid.T) { live(t); r.renew("a"); asked() },
			"as requested": func(t *rapid.T) {
				live(t)
				if r.renewCounted("a") == nil {
					failed()
				}
			},
			"suspend in the file": func(t *rapid.T) {
				live(t)
				r.terminateFor("a", ReasonSuspended)
				if full := len(counted) >= l.Max; r.ensure("a") == nil {
					asked()
				} else if !full {
					t.Fatalf("held with room: %v", counted)
				}
			},
			"time": func(t *rapid.T) {
				held := r.child("a").state == Quarantined
				r.advance(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
				drop()
				if held && r.child("a").state == Running { // as soon as there was room
					counted, took = append(counted, r.child("a").began), true
				}
			},
			"": func(t *rapid.T) {
				drop()
				if n := r.k.info(r.child("a")).InWindow; n != len(counted) {
					t.Fatalf("%d in the window, want %v; a is %v", n, counted, r.child("a").state)
				}
			},
		})
	})
}

// fatal makes rapid's T a testing.TB.
type fatal struct {
	testing.TB
	t *rapid.T
}

func (f fatal) Helper()                           {}
func (f fatal) Fatal(args ...any)                 { f.t.Fatal(args...) }
func (f fatal) Fatalf(format string, args ...any) { f.t.Fatalf(format, args...) }
func (f fatal) Errorf(format string, args ...any) { f.t.Errorf(format, args...) }
