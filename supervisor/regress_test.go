package supervisor

import (
	"errors"
	"math"
	"testing"
	"time"
)

// Faults that the core once had.
func TestRegressions(t *testing.T) {
	pausing := func(s Spec) Spec { return limited(s, Pausing(2, time.Hour)) }
	runScenarios(t, []scenario{
		{
			name: "a probe that is terminated passes the turn on", spec: pausing(one("a", "b")), auto: true,
			act:   func(r *rig) { r.crash("a", "a", "b"); r.resume(); r.trace(); r.terminate("a") },
			trace: "cancel a, stop a, start b, timer b 1m0s", states: "a stopped, b running",
		}, {
			name: "a probe that is not needed passes the turn on", spec: pausing(one("a:ready", "b")),
			act: func(r *rig) {
				r.ready("a")
				r.crash("a")
				r.ready("a")
				r.crash("a", "b")
				r.resume()
				r.trace()
				r.exit("a", Exit{Kind: Ignored, Err: ErrIgnore})
			},
			trace: "start b, timer b 1m0s", states: "a stopped, b running",
		}, {
			name: "a temporary probe that fails pauses again", spec: pausing(one("a:temporary", "b:temporary", "c", "d:temporary")),
			act: func(r *rig) {
				r.crash("a", "b")
				r.exit("c", fine)
				r.terminate("c")
				r.resume()
				r.add(kids("e:temporary")[0])
				r.crash("e")
				if err := r.add(kids("f")[0]); err != ErrPaused {
					r.t.Errorf("after the failure of the probe: %v", err)
				}
			},
			trace: "start e, timer e 1m0s, cancel e", states: "c stopped, d running",
		}, {
			name: "the start of a probe by hand that fails pauses again", spec: pausing(one("a:ready", "b:temporary")),
			act: func(r *rig) {
				r.ready("a")
				r.terminate("a")
				r.gone("a")
				r.crash("b")
				r.add(kids("c:temporary")[0])
				r.crash("c")
				r.resume()
				r.trace()
				r.restart("a")
				r.crash("a")
				if !r.k.paused {
					r.t.Error("not paused")
				}
			},
			trace: "start a, idle false, idle true", states: "a stopped",
		}, {
			name:  "a pause holds what would start in the initial start",
			spec:  Spec{StartFailure: Retry, Limit: Pausing(1, time.Hour), Children: kids("a:ready", "b", "c")},
			act:   func(r *rig) { r.crash("a") },
			trace: "up", states: "a paused, b paused, c paused",
		}, {
			name: "the strategy changes in a pause", spec: limited(one("a", "b", "c"), Pausing(1, time.Hour)),
			act: func(r *rig) {
				r.crash("a", "b")
				r.update(limited(all("a", "b", "c"), Pausing(1, time.Hour)))
				r.crash("c")
				r.resume()
			},
			trace: "start a, timer a 1m0s, start b, start c", states: "a running, b running, c running",
		}, {
			name: "the strategy changes during a delay", spec: one("a:fixed", "b"), auto: true,
			act:   func(r *rig) { r.crash("a"); r.update(all("a:fixed", "b")); r.advance(time.Second) },
			trace: "timer a 1s, start a", states: "a running, b running",
		}, {
			name: "the strategy changes during a delay, and another group is restarted when it ends", spec: one("a:fixed", "b", "c"),
			act: func(r *rig) {
				r.crash("a")
				r.update(rest("a:fixed", "b", "c"))
				r.crash("b")
				r.advance(time.Second)
				r.gone("c")
			},
			trace: "timer a 1s, stop c, start a, start b, start c", states: "a running, b running, c running",
		}, {
			name: "the kind of a limit changes", spec: limited(one("a"), GivingUp(3)),
			act: func(r *rig) {
				r.crash("a", "a")
				r.update(limited(one("a"), Quarantining(2, time.Hour)))
				r.crash("a", "a")
			},
			trace: "start a, start a, start a, start a", states: "a running",
		}, {
			name: "a limit gets smaller", spec: limited(one("a"), Quarantining(7, time.Hour)), auto: true,
			act: func(r *rig) {
				r.crash("a", "a", "a", "a")
				r.update(limited(one("a"), Quarantining(2, time.Hour)))
				for range 4 {
					r.renewCounted("a")
				}
				r.trace()
				r.crash("a")
			},
			trace: "timer a 1h0m0.000000001s", states: "a quarantined",
		}, {
			name: "a limit is taken away during a quarantine", spec: limited(one("a"), Quarantining(1, time.Hour)),
			act: func(r *rig) {
				r.crash("a")
				l := Quarantining(1, time.Hour)
				l.Max = Unlimited
				r.update(limited(one("a"), l))
			},
			trace: "timer a 1h0m0.000000001s, cancel a, start a", states: "a running",
		}, {
			name: "all_significant: one that waits for its start is present",
			spec: Spec{AutoShutdown: AllSignificant, Children: kids("a:temporary,significant", "b:ready", "c:temporary,significant")},
			act:  func(r *rig) { r.exit("a", fine); r.ready("b") }, trace: "start c, up", states: "b running, c running",
		}, {
			name: "rest_for_one: a later child fails in the start phase", spec: rest("a", "b:ready", "c", "d"), auto: true,
			act: func(r *rig) {
				r.ready("b")
				r.crash("a")
				r.terminate("d")
				r.restart("d")
				r.trace()
				r.crash("d")
				r.ready("b")
			},
			trace: "stop b, start b, start c, start d", states: "a running, b running, c running, d running",
		}, {
			name: "a child added to a group whose trigger is terminated", spec: rest("a:fixed", "b"), auto: true,
			act:   func(r *rig) { r.crash("a"); r.add(kids("c")[0]); r.terminate("a") },
			trace: "timer a 1s, stop b, cancel a, start c", states: "a stopped, b stopped, c running",
		}, {
			name: "a suspended instance can be removed", spec: Spec{Strategy: SimpleOneForOne, Children: kids("t")}, auto: true,
			act:   func(r *rig) { r.instance("1"); r.suspend("1"); r.terminate("1") },
			trace: "start 1, idle false, stop 1, idle true", states: "",
		},
	})
}

// A quarantine over all children together lets no more than Max start in a window.
func TestQuarantineOfASupervisor(t *testing.T) {
	l := Quarantining(2, time.Hour)
	l.Scope = ScopeSupervisor
	r := newRig(t, limited(one("a", "b"), l))
	r.crash("a", "b")
	r.trace()
	r.advance(2 * time.Hour)
	r.crash("a", "b") // at different ends of the window
	var starts []time.Duration
	for range 10_000 {
		r.advance(time.Minute)
		for _, id := range []string{"a", "b"} {
			if c := r.k.byID[id]; c.state == Running {
				starts = append(starts, c.began)
				r.crash(id)
			}
		}
		if n := len(starts); n > 2 && starts[n-1]-starts[n-3] <= time.Hour {
			t.Fatalf("three starts within %v", starts[n-1]-starts[n-3])
		}
	}
	if len(starts) < 100 {
		t.Errorf("only %d starts", len(starts))
	}
}

func TestHugeTimesAreRefused(t *testing.T) {
	huge := time.Duration(math.MaxInt64)
	for _, spec := range []Spec{
		limited(one("a"), Quarantining(1, huge)),
		{Children: []ChildSpec{{ID: "a", Run: idle, Backoff: Backoff{Kind: Fixed, Base: huge, Cap: huge}}}},
		{Children: []ChildSpec{{ID: "a", Run: idle, Limit: Pausing(1, huge)}}},
	} {
		var err *SpecError
		if !errors.As(spec.Validate(), &err) {
			t.Errorf("%+v is valid", spec)
		}
	}
}
