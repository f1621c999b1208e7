package supervisor

import (
	"fmt"
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	child := func(s Spec, l Limit) Spec { s.Children[0].Limit = l; return s }
	scope := func(l Limit, s Scope) Limit { l.Scope = s; return l }
	count := func(l Limit, c Count) Limit { l.Count = c; return l }
	crash := func(n int, id string) func(*rig) {
		return func(r *rig) {
			for range n {
				r.crash(id)
			}
		}
	}
	runScenarios(t, []scenario{
		{
			name: "escalate: max restarts are allowed", spec: limited(one("a", "b"), Escalating(2, time.Minute)), auto: true,
			act:   crash(2, "a"),
			trace: "start a, start a", states: "a running, b running",
		}, {
			name: "escalate: one more ends the supervisor", spec: limited(one("a", "b"), Escalating(2, time.Minute)), auto: true,
			act:   crash(3, "a"),
			trace: "start a, start a, stop b, end failure: root: limit reached (2 restarts in 1m0s, then escalate): a ended with boom", states: "a stopped, b stopped",
		}, {
			name: "escalate: 0 allows none", spec: limited(one("a"), Escalating(0, time.Minute)),
			act:   crash(1, "a"),
			trace: "end failure: root: limit reached (0 restarts in 1m0s, then escalate): a ended with boom", states: "a stopped",
		}, {
			name: "escalate: over all children together", spec: limited(one("a", "b"), Escalating(1, time.Minute)),
			act:   func(r *rig) { r.crash("a", "b") },
			trace: "start a, stop a", states: "a stopping, b stopped",
		}, {
			name: "escalate: or for each on its own", spec: limited(one("a", "b"), scope(Escalating(1, time.Minute), ScopeChild)),
			act:   func(r *rig) { r.crash("a", "b", "b") },
			trace: "start a, start b, stop a", states: "a stopping, b stopped",
		}, {
			name: "escalate: a group's restart counts once", spec: limited(all("a", "b", "c"), Escalating(1, time.Minute)), auto: true,
			act:   crash(1, "a"),
			trace: "stop c, stop b, start a, start b, start c", states: "a running, b running, c running",
		}, {
			name: "escalate: the window's edge is included", spec: limited(one("a"), Escalating(1, time.Minute)),
			act:   func(r *rig) { r.crash("a"); r.advance(time.Minute); r.crash("a") },
			trace: "start a, end failure: root: limit reached (1 restarts in 1m0s, then escalate): a ended with boom", states: "a stopped",
		}, {
			name: "escalate: after it there is room", spec: limited(one("a"), Escalating(1, time.Minute)),
			act:   func(r *rig) { r.crash("a"); r.advance(time.Minute + 1); r.crash("a") },
			trace: "start a, start a", states: "a running",
		}, {
			name: "escalate: failing starts count", spec: limited(one("a:ready", "b"), Escalating(2, time.Minute)), auto: true,
			act:   func(r *rig) { r.ready("a"); r.trace(); r.crash("a", "a", "a") },
			trace: "start a, start a, stop b, end failure: root: limit reached (2 restarts in 1m0s, then escalate): a ended with boom", states: "a stopped, b stopped",
		}, {
			name: "escalate: calls do not count", spec: limited(one("a"), Escalating(0, time.Minute)), auto: true,
			act:   func(r *rig) { r.terminate("a"); r.restart("a"); r.add(kids("b")[0]) },
			trace: "stop a, idle true, start a, idle false, start b", states: "a running, b running",
		}, {
			name: "a child's own limit does not touch the supervisor's", spec: child(limited(one("a", "b"), Escalating(1, time.Minute)), GivingUp(3)),
			act:   func(r *rig) { r.crash("a", "a", "a", "b") },
			trace: "start a, start a, start a, start b", states: "a running, b running",
		}, {
			name: "and is not touched by it", spec: child(limited(one("a", "b"), Escalating(3, time.Minute)), GivingUp(1)),
			act:   func(r *rig) { r.crash("b", "b", "a", "a") },
			trace: "start b, start b, start a", states: "a given_up, b running",
		}, {
			name: "quarantine: at max starts, the first included", spec: limited(one("a"), Quarantining(3, time.Hour)),
			act:   func(r *rig) { r.advance(time.Minute); r.crash("a", "a", "a") },
			trace: "start a, start a, timer a 59m0.000000001s", states: "a quarantined",
		}, {
			name: "quarantine: ends by itself when the window has room", spec: limited(one("a"), Quarantining(3, time.Hour)),
			act: func(r *rig) {
				r.advance(time.Minute)
				r.crash("a", "a", "a")
				r.trace()
				r.advance(59 * time.Minute)
				r.wantStates("a quarantined")
				r.advance(1)
			},
			trace: "start a", states: "a running",
		}, {
			name: "quarantine: room for one is room for one", spec: limited(one("a"), Quarantining(2, time.Hour)),
			act: func(r *rig) {
				r.advance(time.Minute)
				r.crash("a", "a")
				r.trace()
				r.advance(59*time.Minute + 1)
				r.crash("a")
			},
			trace: "start a, timer a 1m0s", states: "a quarantined",
		}, {
			name: "quarantine: of restarts, its end is one", spec: limited(one("a"), count(Quarantining(1, time.Hour), CountRestarts)),
			act:   func(r *rig) { r.crash("a", "a"); r.advance(time.Hour + 1); r.crash("a") },
			trace: "start a, timer a 1h0m0.000000001s, start a, timer a 1h0m0.000000001s", states: "a quarantined",
		}, {
			name: "a stop during a probe", spec: limited(one("a", "b"), Pausing(1, time.Hour)),
			act:   func(r *rig) { r.crash("a"); r.resume(); r.stop(); r.gone("b") },
			trace: "start a, timer a 1m0s, cancel a, stop b, stop a", states: "a stopping, b stopped",
		}, {
			name: "quarantine: a start by hand clears the window", spec: limited(one("a"), Quarantining(3, time.Hour)), auto: true,
			act: func(r *rig) {
				r.crash("a", "a") // the window is full
				for range 5 {
					r.terminate("a")
					r.restart("a")
				}
				r.crash("a", "a") // the first start and two more
				r.wantStates("a running")
				r.trace()
				r.crash("a")
			},
			trace: "timer a 1h0m0.000000001s", states: "a quarantined",
		}, {
			name: "quarantine: so it does for one that is held", spec: limited(one("a"), Quarantining(2, time.Hour)), auto: true,
			act: func(r *rig) {
				r.crash("a", "a")
				r.suspend("a")
				r.restart("a")
				r.crash("a")
				r.wantStates("a running")
				r.trace()
				r.crash("a")
			},
			trace: "timer a 1h0m0.000000001s", states: "a quarantined",
		}, {
			name: "quarantine: of all together, a start by hand takes no place", spec: limited(one("a", "b"), scope(Quarantining(4, time.Hour), ScopeSupervisor)), auto: true,
			act: func(r *rig) {
				for range 5 {
					r.terminate("a")
					r.restart("a")
				}
				r.crash("a", "b")
				r.wantStates("a running, b running")
				r.trace()
				r.crash("a")
			},
			trace: "timer a 1h0m0.000000001s", states: "a quarantined, b running",
		}, {
			name: "quarantine: a renewal takes no place", spec: limited(one("a"), Quarantining(2, time.Hour)), auto: true,
			act: func(r *rig) {
				r.crash("a") // the window is full
				for range 5 {
					r.renew("a")
				}
				r.wantStates("a running")
				r.trace()
				r.crash("a")
			},
			trace: "timer a 1h0m0.000000001s", states: "a quarantined",
		}, {
			name: "quarantine: in an empty window it takes one", spec: limited(one("a"), Quarantining(2, time.Hour)), auto: true,
			act:   func(r *rig) { r.advance(2 * time.Hour); r.renew("a"); r.crash("a"); r.trace(); r.crash("a") },
			trace: "timer a 1h0m0.000000001s", states: "a quarantined",
		}, {
			name: "quarantine: a long run after a renewal takes nothing back", spec: limited(one("a"), Quarantining(3, time.Hour)), auto: true,
			act: func(r *rig) {
				r.crash("a")
				r.renew("a")
				r.advance(time.Minute)
				r.exit("a", fine) // the third start
				r.trace()
				r.crash("a")
			},
			trace: "timer a 59m0.000000001s", states: "a quarantined",
		}, {
			name: "quarantine: what was suspended runs again without a place", spec: limited(one("a"), Quarantining(2, time.Hour)), auto: true,
			act: func(r *rig) {
				for range 5 {
					r.terminateFor("a", ReasonSuspended)
					r.ensure("a")
				}
				r.crash("a")
				r.wantStates("a running")
				r.trace()
				r.crash("a")
			},
			trace: "timer a 1h0m0.000000001s", states: "a quarantined",
		}, {
			name: "quarantine: of one does not touch the other", spec: limited(one("a", "b"), Quarantining(2, time.Hour)),
			act:   func(r *rig) { r.crash("a", "a", "b") },
			trace: "start a, timer a 1h0m0.000000001s, start b", states: "a quarantined, b running",
		}, {
			name: "quarantine: the group waits", spec: limited(rest("a", "b", "c"), Quarantining(2, time.Hour)), auto: true,
			act:   func(r *rig) { r.crash("b"); r.trace(); r.crash("b"); r.advance(time.Hour + 1) },
			trace: "timer b 1h0m0.000000001s, stop c, start b, start c", states: "a running, b running, c running",
		}, {
			name: "quarantine: a restart for a sibling does not count", spec: limited(rest("a", "b"), Quarantining(3, time.Hour)), auto: true,
			act: func(r *rig) {
				r.crash("a")
				r.crash("a") // both have been started three times, b through no failure of its own
				r.trace()
				r.crash("b", "b")
				r.wantStates("a running, b running")
				r.crash("b")
			},
			trace: "start b, start b, timer b 1h0m0.000000001s", states: "a running, b quarantined",
		}, {
			name: "quarantine: a long run that ended cleanly does not count", spec: limited(one("a"), Quarantining(2, time.Hour)),
			act: func(r *rig) {
				for range 5 {
					r.advance(time.Minute)
					r.exit("a", fine)
				}
				r.wantStates("a running")
				r.trace()
				r.advance(time.Minute - 1)
				r.exit("a", fine) // too short
				r.exit("a", fine)
			},
			trace: "start a, timer a 59m0.000000002s", states: "a quarantined",
		}, {
			name: "quarantine: one that ends cleanly at once waits longer each time", spec: limited(one("a:linear"), Quarantining(9, time.Hour)),
			act: func(r *rig) {
				r.exit("a", fine)
				r.advance(time.Second)
				r.exit("a", fine)
				r.advance(2 * time.Second)
				r.advance(time.Minute)
				r.exit("a", fine) // which lived long enough to begin again
			},
			trace: "timer a 1s, start a, timer a 2s, start a, timer a 1s", states: "a restarting",
		}, {
			name: "quarantine: a long run that failed counts", spec: limited(one("a"), Quarantining(2, time.Hour)),
			act:   func(r *rig) { r.advance(2 * time.Minute); r.crash("a"); r.advance(2 * time.Minute); r.crash("a") },
			trace: "start a, timer a 56m0.000000001s", states: "a quarantined",
		}, {
			name: "quarantine: of all together, a long run counts", spec: limited(one("a", "b"), scope(Quarantining(3, time.Hour), ScopeSupervisor)),
			act:   func(r *rig) { r.advance(time.Minute); r.exit("a", fine); r.exit("b", fine) },
			trace: "start a, timer b 59m0.000000001s", states: "a running, b quarantined",
		}, {
			name: "quarantine: terminate ends it", spec: limited(one("a"), Quarantining(1, time.Hour)),
			act:   func(r *rig) { r.crash("a"); r.terminate("a"); r.advance(2 * time.Hour) },
			trace: "timer a 1h0m0.000000001s, cancel a, idle true", states: "a stopped",
		}, {
			name: "give up: after max consecutive restarts", spec: limited(one("a"), GivingUp(3)),
			act:   crash(4, "a"),
			trace: "start a, start a, start a, idle true", states: "a given_up",
		}, {
			name: "give up: 0 is one run", spec: limited(one("a"), GivingUp(0)),
			act:   func(r *rig) { r.exit("a", fine) },
			trace: "idle true", states: "a given_up",
		}, {
			name: "give up: never after successes", spec: limited(one("a"), GivingUp(2)),
			act: func(r *rig) {
				for range 5 {
					r.exit("a", fine)
				}
			},
			trace: "start a, start a, start a, start a, start a", states: "a running",
		}, {
			name: "give up: a long life is a success", spec: limited(one("a"), GivingUp(1)),
			act:   func(r *rig) { r.crash("a"); r.advance(DefaultStableAfter); r.crash("a") },
			trace: "start a, start a", states: "a running",
		}, {
			name: "give up: a short one is not", spec: limited(one("a"), GivingUp(1)),
			act:   func(r *rig) { r.crash("a"); r.advance(DefaultStableAfter - 1); r.crash("a") },
			trace: "start a, idle true", states: "a given_up",
		}, {
			name: "give up: reset starts it", spec: limited(one("a"), GivingUp(1)),
			act:   func(r *rig) { r.crash("a", "a"); r.reset("a") },
			trace: "start a, idle true, start a, idle false", states: "a running",
		}, {
			name: "give up: its group stays down and others live", spec: limited(rest("a", "b", "c"), GivingUp(0)), auto: true,
			act:   func(r *rig) { r.crash("b"); r.advance(time.Hour) },
			trace: "stop c", states: "a running, b given_up, c waiting",
		}, {
			name: "give up: reset brings the group back", spec: limited(rest("a", "b", "c"), GivingUp(0)), auto: true,
			act:   func(r *rig) { r.crash("b"); r.trace(); r.reset("b") },
			trace: "start b, start c", states: "a running, b running, c running",
		}, {
			name: "pause: at max failures of all together, the one at hand included", spec: limited(one("a", "b", "c"), Pausing(3, time.Minute)),
			act:   func(r *rig) { r.crash("a", "b", "c") },
			trace: "start a, start b", states: "a running, b running, c paused",
		}, {
			name: "pause: clean exits do not count", spec: limited(one("a"), Pausing(2, time.Minute)),
			act:   func(r *rig) { r.exit("a", fine); r.crash("a"); r.exit("a", fine) },
			trace: "start a, start a, start a", states: "a running",
		}, {
			name: "pause: but are not restarted during one", spec: limited(one("a", "b"), Pausing(1, time.Minute)),
			act:   func(r *rig) { r.crash("a"); r.exit("b", fine); r.advance(time.Hour) },
			trace: "", states: "a paused, b paused",
		}, {
			name: "pause: failures of temporary children count", spec: limited(one("a:temporary", "b:temporary", "c"), Pausing(2, time.Minute)),
			act:   func(r *rig) { r.crash("a", "b"); r.exit("c", fine) },
			trace: "", states: "c paused",
		}, {
			name: "pause: old failures leave the window", spec: limited(one("a"), Pausing(2, time.Minute)),
			act:   func(r *rig) { r.crash("a"); r.advance(time.Minute + 1); r.crash("a") },
			trace: "start a, start a", states: "a running",
		}, {
			name: "pause: a delay that ends in one is held", spec: limited(one("a:fixed", "b"), Pausing(2, time.Minute)),
			act:   func(r *rig) { r.crash("a", "b"); r.advance(time.Second) },
			trace: "timer a 1s", states: "a paused, b paused",
		}, {
			name: "resume: the first is a probe, the others wait", spec: limited(one("a", "b", "c"), Pausing(1, time.Minute)),
			act:   func(r *rig) { r.crash("a", "b"); r.resume() },
			trace: "start a, timer a 1m0s", states: "a running, b paused, c running",
		}, {
			name: "resume: its long life releases them", spec: limited(one("a", "b", "c"), Pausing(1, time.Minute)),
			act:   func(r *rig) { r.crash("a", "b"); r.resume(); r.trace(); r.advance(time.Minute) },
			trace: "start b", states: "a running, b running, c running",
		}, {
			name: "resume: its clean exit too", spec: limited(one("a", "b"), Pausing(1, time.Minute)),
			act:   func(r *rig) { r.crash("a", "b"); r.resume(); r.trace(); r.exit("a", fine) },
			trace: "cancel a, start b, start a", states: "a running, b running",
		}, {
			name: "resume: its failure pauses again", spec: limited(one("a", "b"), Pausing(5, time.Minute)),
			act: func(r *rig) {
				r.crash("b", "b", "b", "b", "a", "b")
				r.resume()
				r.trace()
				r.crash("a")
				r.resume()
			},
			trace: "cancel a, start a, timer a 1m0s", states: "a running, b paused",
		}, {
			name: "resume: a clean exit of another during the probe waits", spec: limited(one("a", "b"), Pausing(1, time.Minute)),
			act:   func(r *rig) { r.crash("a"); r.resume(); r.trace(); r.exit("b", fine) },
			trace: "", states: "a running, b paused",
		}, {
			name: "resume: without a pause nothing happens", spec: limited(one("a"), Pausing(2, time.Minute)),
			act:   func(r *rig) { r.crash("a"); r.resume(); r.crash("a") },
			trace: "start a", states: "a paused",
		}, {
			name: "reset does not end a pause", spec: limited(one("a"), Pausing(1, time.Minute)),
			act:   func(r *rig) { r.crash("a"); r.reset("a") },
			trace: "", states: "a paused",
		}, {
			name: "unlimited", spec: limited(one("a"), Limit{Max: Unlimited}),
			act:   crash(3, "a"),
			trace: "start a, start a, start a", states: "a running",
		}, {
			name: "any mix: failures, for each child, give up", spec: limited(one("a", "b"), scope(count(GivingUp(2), CountFailures), ScopeChild)),
			act:   func(r *rig) { r.exit("a", fine); r.crash("a", "b", "a") },
			trace: "start a, start a, start b", states: "a given_up, b running",
		}, {
			name: "any mix: starts, of all, escalate", spec: limited(one("a", "b"), Limit{Max: 3, Within: time.Minute, Count: CountStarts}),
			act:   func(r *rig) { r.crash("a", "b") },
			trace: "start a, stop a", states: "a stopping, b stopped",
		},
	})
}

func TestPausedCalls(t *testing.T) {
	r := newRig(t, limited(Spec{Strategy: SimpleOneForOne, Children: kids("t:temporary")}, Pausing(2, time.Minute)))
	r.auto = true
	for _, id := range []string{"1", "2", "3"} {
		if err := r.instance(id); err != nil {
			t.Fatal(err)
		}
	}
	r.crash("1", "2")
	if err := r.instance("4"); err != ErrPaused {
		t.Errorf("in a pause: %v", err)
	}
	r.resume()
	if err := r.instance("4"); err != nil {
		t.Errorf("the probe: %v", err)
	}
	if err := r.instance("5"); err != ErrPaused {
		t.Errorf("beside the probe: %v", err)
	}
	r.exit("4", fine)
	if err := r.instance("5"); err != nil {
		t.Errorf("after the probe: %v", err)
	}
	r.check()
}

// Every decision says why.
func TestReasons(t *testing.T) {
	rows := []struct {
		name  string
		spec  Spec
		act   func(*rig)
		want  Decision
		state string
	}{
		{"permanent", one("a"), func(r *rig) { r.crash("a") }, Decision{RestartIt, ReasonPermanent, 0, 1}, "a running"},
		{"attempts", one("a"), func(r *rig) { r.crash("a", "a") }, Decision{RestartIt, ReasonPermanent, 0, 2}, "a running"},
		{"delay", one("a:fixed"), func(r *rig) { r.crash("a") }, Decision{RestartIt, ReasonPermanent, time.Second, 1}, "a restarting"},
		{"shutdown", one("a", "b"), func(r *rig) { r.stop(); r.crash("a") }, Decision{Action: Leave, Reason: ReasonShutdown}, "a stopped, b stopping"},
		{"sibling", all("a", "b", "c"), func(r *rig) { r.crash("a", "b") }, Decision{Action: RestartIt, Reason: ReasonSibling}, "a waiting, b waiting, c stopping"},
		{"escalate", limited(one("a"), Escalating(0, 1)), func(r *rig) { r.crash("a") }, Decision{Action: EndSelf, Reason: ReasonLimitEscalate}, "a stopped"},
		{"quarantine", limited(one("a"), Quarantining(1, time.Hour)), func(r *rig) { r.crash("a") }, Decision{Action: HoldIt, Reason: ReasonLimitQuarantine, Delay: time.Hour + 1}, "a quarantined"},
		{"give up", limited(one("a"), GivingUp(0)), func(r *rig) { r.crash("a") }, Decision{Action: HoldIt, Reason: ReasonLimitGiveUp}, "a given_up"},
		{"pause", limited(one("a"), Pausing(1, 1)), func(r *rig) { r.crash("a") }, Decision{Action: HoldIt, Reason: ReasonLimitPause}, "a paused"},
		{"probe", limited(one("a", "b"), Pausing(1, 1)), func(r *rig) { r.crash("a"); r.resume(); r.exit("b", fine) }, Decision{Action: HoldIt, Reason: ReasonProbe}, "a running, b paused"},
		{"failed start", one("a:ready"), func(r *rig) { r.ready("a"); r.crash("a", "a") }, Decision{RestartIt, ReasonStartFailed, 0, 2}, "a starting"},
		{"failed start by hand", one("a:ready"), func(r *rig) {
			r.ready("a")
			r.terminate("a")
			r.gone("a")
			r.restart("a")
			r.crash("a")
		}, Decision{Action: Leave, Reason: ReasonStartFailed}, "a stopped"},
		{"failed start of a new child", one("a"), func(r *rig) { r.add(kids("b:ready")[0]); r.crash("b") }, Decision{Action: Forget, Reason: ReasonStartFailed}, "a running"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, row.spec)
			row.act(r)
			r.check()
			r.wantStates(row.state)
			if d := r.last(); d != row.want {
				t.Errorf("got %+v, want %+v", d, row.want)
			}
		})
	}
}

// The reason is also kept with the child.
func TestReasonOfAChild(t *testing.T) {
	r := newRig(t, one("a:transient", "b", "c", "d:ready"))
	r.auto = true
	r.ready("d")
	r.exit("a", fine)
	r.terminate("b")
	r.crash("d")
	r.exit("d", Exit{Kind: Ignored, Err: ErrIgnore})
	for id, want := range map[string]Reason{"a": ReasonTransientClean, "b": ReasonTerminated, "c": NoReason, "d": ReasonIgnored} {
		if got := r.k.info(r.k.byID[id]).Reason; got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

func TestInfo(t *testing.T) {
	r := newRig(t, limited(one("a:fixed"), Escalating(7, time.Minute)))
	r.advance(3 * time.Second)
	i := r.k.info(r.k.byID["a"])
	if i.State != Running || i.Incarnation != 1 || i.Uptime != 3*time.Second || !i.NextAt.IsZero() || i.LastExit.Kind != NoExit || !i.StartedAt.Equal(r.k.epoch) {
		t.Errorf("running: %+v", i)
	}
	r.crash("a")
	i = r.k.info(r.k.byID["a"])
	if i.State != Restarting || i.Restarts != 1 || i.InWindow != 1 || i.Limit.Max != 7 || i.LastExit != boom || i.Uptime != 0 || !i.NextAt.Equal(r.k.epoch.Add(4*time.Second)) {
		t.Errorf("restarting: %+v", i)
	}
	r.advance(time.Minute + time.Second)
	i = r.k.info(r.k.byID["a"])
	if i.State != Running || i.Incarnation != 2 || i.InWindow != 0 || !i.NextAt.IsZero() {
		t.Errorf("running again: %+v", i)
	}
}

// The window is a ring: compare it with a list, for all sizes around its growth.
func TestWindow(t *testing.T) {
	for _, max := range []int{1, 2, 3, 4, 5, 8, 9, 31} {
		for _, within := range []time.Duration{0, 3, 10, 1000} {
			t.Run(fmt.Sprintf("%d in %d", max, within), func(t *testing.T) {
				l := Limit{Max: max, Within: within}
				var w window
				var list []time.Duration
				for now := range time.Duration(500) {
					if now%7 < 4 {
						if w.add(now, l); len(list) == max {
							list = list[1:]
						}
						list = append(list, now)
					}
					for within > 0 && len(list) > 0 && now-list[0] > within {
						list = list[1:]
					}
					if got := w.count(now, l); got != len(list) {
						t.Fatalf("at %d: %d, want %d", now, got, len(list))
					}
					if len(list) == max && within > 0 && w.room(l) != list[0]+within+1 {
						t.Fatalf("at %d: room at %d, want %d", now, w.room(l), list[0]+within+1)
					}
				}
				if len(w.times) > max {
					t.Errorf("%d times kept", len(w.times))
				}
			})
		}
	}
}
