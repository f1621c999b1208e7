package supervisor

import (
	"errors"
	"testing"
	"time"
)

func TestShutdown(t *testing.T) {
	runScenarios(t, []scenario{
		{
			name: "in reverse order, one at a time", spec: one("a", "b", "c"),
			act:   func(r *rig) { r.stop(); r.gone("c", "b") },
			trace: "stop c, stop b, stop a", states: "a stopping, b stopped, c stopped",
		}, {
			name: "instances all at once", spec: Spec{Strategy: SimpleOneForOne, Children: kids("t")},
			act: func(r *rig) {
				r.instance("1")
				r.instance("2")
				r.trace()
				r.stop()
				r.gone("1", "2")
			},
			trace: "stop 1, stop 2, end shutdown", states: "",
		}, {
			name: "no child is restarted during it", spec: one("a", "b:transient", "c"),
			act:   func(r *rig) { r.stop(); r.crash("a", "b"); r.gone("c") },
			trace: "stop c, end shutdown", states: "a stopped, b stopped, c stopped",
		}, {
			name: "a pending restart is cancelled", spec: one("a:fixed", "b"), auto: true,
			act:   func(r *rig) { r.crash("a"); r.stop() },
			trace: "timer a 1s, cancel a, stop b, end shutdown", states: "a stopped, b stopped",
		}, {
			name: "during the initial start", spec: one("a", "b:ready", "c"), auto: true,
			act:   func(r *rig) { r.stop() },
			trace: "stop b, stop a, end shutdown", states: "a stopped, b stopped, c stopped",
		}, {
			name: "during the restart of a group", spec: all("a", "b", "c"),
			act:   func(r *rig) { r.crash("a"); r.stop(); r.gone("c", "b") },
			trace: "stop c, stop b, end shutdown", states: "a stopped, b stopped, c stopped",
		}, {
			name: "an empty supervisor ends at once", spec: one(),
			act:   func(r *rig) { r.stop() },
			trace: "end shutdown", states: "",
		}, {
			name: "a second stop changes nothing", spec: one("a", "b"),
			act:   func(r *rig) { r.stop(); r.stop(); r.gone("b", "a") },
			trace: "stop b, stop a, end shutdown", states: "a stopped, b stopped",
		}, {
			name: "kill skips Stop and the order", spec: one("a", "b", "c"),
			act:   func(r *rig) { r.kill(); r.gone("a", "b", "c") },
			trace: "stop c, stop a, stop b, kill c, end killed: killed", states: "a stopped, b stopped, c stopped",
		}, {
			name: "kill hurries a stop", spec: one("a", "b"),
			act:   func(r *rig) { r.stop(); r.kill(); r.gone("a", "b") },
			trace: "stop b, stop a, kill b, end shutdown", states: "a stopped, b stopped",
		}, {
			name: "a failing start during it", spec: one("a", "b:ready"),
			act: func(r *rig) {
				r.ready("b")
				r.crash("b")
				r.trace()
				r.stop()
				r.exit("b", boom)
				r.gone("a")
			},
			trace: "stop b, stop a, end shutdown", states: "a stopped, b stopped",
		},
	})
}

func TestStartTimeout(t *testing.T) {
	runScenarios(t, []scenario{
		{
			name: "counts as a failed start", spec: one("a:ready"), auto: true,
			act: func(r *rig) {
				r.ready("a")
				r.crash("a")
				r.trace()
				r.late("a")
			},
			trace: "stop a, start a", states: "a starting",
		}, {
			name: "of an added child takes it from the list", spec: one("a"), auto: true,
			act:   func(r *rig) { r.add(kids("b:ready")[0]); r.late("b") },
			trace: "start b, stop b", states: "a running",
		}, {
			name: "terminated meanwhile", spec: one("a"),
			act:   func(r *rig) { r.add(kids("b:ready")[0]); r.late("b"); r.terminate("b"); r.gone("b") },
			trace: "start b, stop b", states: "a running, b stopped",
		}, {
			name: "its group is restarted meanwhile", spec: rest("a", "b:ready"),
			act: func(r *rig) {
				r.ready("b")
				r.crash("b")
				r.late("b")
				r.trace()
				r.crash("a")
				r.gone("b")
			},
			trace: "start a, start b", states: "a running, b starting",
		}, {
			name: "the supervisor is stopped meanwhile", spec: one("a:ready"),
			act:   func(r *rig) { r.late("a"); r.stop(); r.gone("a") },
			trace: "stop a, end shutdown", states: "a stopped",
		},
	})
}

func TestAutoShutdown(t *testing.T) {
	with := func(a AutoShutdown, s Spec) Spec { s.AutoShutdown = a; return s }
	runScenarios(t, []scenario{
		{
			name: "any: the first that ends for good", spec: with(AnySignificant, one("a:temporary,significant", "b:transient,significant", "c")), auto: true,
			act:   func(r *rig) { r.exit("b", fine) },
			trace: "stop c, stop a, end shutdown", states: "b stopped, c stopped",
		}, {
			name: "any: not by hand, not by a restart", spec: with(AnySignificant, one("a:temporary,significant", "b:transient,significant")), auto: true,
			act:   func(r *rig) { r.crash("b"); r.terminate("a"); r.terminate("b") },
			trace: "start b, stop a, stop b, idle true", states: "b stopped",
		}, {
			name: "all: only the last", spec: with(AllSignificant, one("a:temporary,significant", "b:transient,significant", "c")), auto: true,
			act:   func(r *rig) { r.crash("a"); r.check(); r.trace(); r.exit("b", fine) },
			trace: "stop c, end shutdown", states: "b stopped, c stopped",
		}, {
			name: "all: one that is restarting counts as present", spec: with(AllSignificant, one("a:temporary,significant", "b:transient,significant,fixed")), auto: true,
			act:   func(r *rig) { r.crash("b"); r.exit("a", fine); r.advance(time.Second) },
			trace: "timer b 1s, start b", states: "b running",
		}, {
			name: "any: during the start, the supervisor ends once it is up", spec: with(AnySignificant, one("a:temporary,significant", "b:ready")), auto: true,
			act:   func(r *rig) { r.exit("a", fine); r.ready("b") },
			trace: "up, stop b, end shutdown", states: "b stopped",
		}, {
			name: "significant siblings of a restart end nothing", spec: with(AnySignificant, all("a:transient,significant", "b")), auto: true,
			act:   func(r *rig) { r.crash("b") },
			trace: "stop a, start a, start b", states: "a running, b running",
		}, {
			name: "when_done: no child left", spec: with(WhenDone, one("a:transient", "b:temporary")),
			act:   func(r *rig) { r.exit("a", fine); r.crash("b") },
			trace: "end normal", states: "a stopped",
		}, {
			name: "when_done: not while one is restarting", spec: with(WhenDone, one("a:transient,fixed", "b:temporary")),
			act:   func(r *rig) { r.crash("a", "b") },
			trace: "timer a 1s", states: "a restarting",
		}, {
			name: "when_done: one that was given up will not run again", spec: with(WhenDone, limited(all("a", "b"), GivingUp(0))), auto: true,
			act:   func(r *rig) { r.crash("a") },
			trace: "stop b, end normal", states: "a stopped, b stopped",
		},
	})
}

func TestIdle(t *testing.T) {
	r := newRig(t, one("a:transient", "b:transient"))
	r.trace()
	r.step(func() { r.k.setIdle(r.k.byID["a"], true) })
	r.want("")
	r.exit("b", fine)
	r.want("idle true")
	r.step(func() { r.k.setIdle(r.k.byID["a"], false) })
	r.want("idle false")
	r.check()
	r.step(func() { r.k.setIdle(r.k.byID["a"], true) })
	r.crash("a") // an idle child that ends is no longer idle
	r.check()
	r.want("idle true, start a, idle false")
}

func TestCallsOnTheCore(t *testing.T) {
	r := newRig(t, one("a", "b:fixed", "c:temporary"))
	r.auto = true
	is := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	is("add running", r.add(kids("a")[0]), ErrAlreadyStarted)
	is("restart running", r.restart("a"), ErrRunning)
	is("delete running", r.remove("a"), ErrRunning)
	r.terminate("a")
	r.terminate("a")
	is("add stopped", r.add(kids("a")[0]), ErrAlreadyPresent)
	is("restart stopped", r.restart("a"), nil)
	r.crash("b")
	is("add restarting", r.add(kids("b")[0]), ErrAlreadyPresent)
	is("restart restarting", r.restart("b"), ErrRestarting)
	is("delete restarting", r.remove("b"), ErrRestarting)
	r.terminate("b")
	is("delete stopped", r.remove("b"), nil)
	is("add again", r.add(kids("b")[0]), nil)
	r.terminate("c")
	r.wantStates("a running, b running")
	r.suspend("a")
	is("delete suspended", r.remove("a"), nil)
	r.check()
	r.stop()
	is("add when stopping", r.add(kids("d")[0]), ErrStopping)
	is("restart when stopping", r.restart("b"), ErrStopping)
}

func TestAbandonOnTheCore(t *testing.T) {
	r := newRig(t, all("a", "b"))
	r.crash("a")
	r.abandon("b")
	r.wantStates("a running, b running")
	if g := r.k.byID["b"].gen; g != 2 {
		t.Errorf("incarnation %d of b", g)
	}

	r = newRig(t, all("a", "b:fail", "c"))
	r.crash("a")
	r.gone("c")
	r.trace()
	r.abandon("b")
	r.want("end failure: b: did not stop within 0s")
	if !r.ended || r.k.final.Kind != Failure {
		t.Errorf("final %v", r.k.final)
	}
	r.check()
}
