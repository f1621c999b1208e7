package supervisor

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// scenario is one row: what is done to a core, and what that makes it want done.
type scenario struct {
	name   string
	spec   Spec
	auto   bool // children end at once when asked
	skip   string
	act    func(*rig)
	trace  string // since the start
	states string
}

func runScenarios(t *testing.T, rows []scenario) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.skip != "" {
				t.Skip(row.skip)
			}
			r := newRig(t, row.spec)
			r.auto = row.auto
			r.check()
			r.trace()
			row.act(r)
			r.check()
			if err := r.stuck(); err != nil {
				t.Error(err)
			}
			r.want(row.trace)
			r.wantStates(row.states)
		})
	}
}

func one(children ...string) Spec  { return Spec{Children: kids(children...)} }
func all(children ...string) Spec  { return Spec{Strategy: OneForAll, Children: kids(children...)} }
func rest(children ...string) Spec { return Spec{Strategy: RestForOne, Children: kids(children...)} }

func limited(s Spec, l Limit) Spec { s.Limit = l; return s }

func TestBoot(t *testing.T) {
	r := newRig(t, one("a", "b", "c"))
	r.want("start a, start b, start c, up")
	r = newRig(t, one())
	r.want("up, idle true")
	r = newRig(t, one("a:ready", "b", "c:ready"))
	r.want("start a")
	r.wantStates("a starting, b waiting, c waiting")
	r.ready("a")
	r.want("start b, start c")
	r.ready("c")
	r.want("up")
	r.ready("c") // a second time
	r.want("")
}

// More children than are started in one go.
func TestBootInChunks(t *testing.T) {
	var spec Spec
	for range 3*chunk + 1 {
		spec.Children = append(spec.Children, ChildSpec{ID: string(rune('0' + len(spec.Children))), Run: idle})
	}
	r := newRig(t, spec)
	r.check()
	if n := len(r.lives); n != len(spec.Children) || !r.k.up {
		t.Errorf("%d of %d live, up: %v", n, len(spec.Children), r.k.up)
	}
}

func TestBootRollsBack(t *testing.T) {
	r := newRig(t, one("a", "b", "c:ready", "d"))
	r.trace()
	r.crash("c")
	r.want("stop b")
	r.gone("b", "a")
	r.want("stop a, end failure: start of c failed: boom")
	if got := strings.Join(r.told, "; "); got != "d: supervisor is shutting down; b: terminated while starting; a: terminated while starting" {
		t.Errorf("told %s", got)
	}
	if d := r.last(); d.Action != EndSelf || d.Reason != ReasonStartFailed {
		t.Errorf("decision %v", d)
	}
	var start *StartError
	if !errors.As(r.k.final.Err, &start) || start.ID != "c" || !errors.Is(start, errBoom) {
		t.Errorf("final %v", r.k.final)
	}
}

func TestBootRetries(t *testing.T) {
	spec := one("a:ready,fixed", "b")
	spec.StartFailure = Retry
	r := newRig(t, spec)
	r.crash("a")
	r.want("start a, timer a 1s, start b, up")
	r.wantStates("a restarting, b running")
	r.advance(time.Second)
	r.want("start a")
	r.wantStates("a starting, b running")

	// In a group, what comes after a child waits for it.
	spec.Strategy = RestForOne
	r = newRig(t, spec)
	r.crash("a")
	r.want("start a, timer a 1s")
	r.wantStates("a restarting, b waiting")
	r.advance(time.Second)
	r.ready("a")
	r.want("start a, start b, up")
}

func TestStrategies(t *testing.T) {
	runScenarios(t, []scenario{
		{
			name: "one_for_one restarts the failed child alone", spec: one("a", "b", "c"),
			act:   func(r *rig) { r.crash("b") },
			trace: "start b", states: "a running, b running, c running",
		}, {
			name: "one_for_all stops backwards and starts forwards", spec: all("a", "b", "c", "d"), auto: true,
			act:   func(r *rig) { r.crash("b") },
			trace: "stop d, stop c, stop a, start a, start b, start c, start d", states: "a running, b running, c running, d running",
		}, {
			name: "one at a time", spec: all("a", "b", "c"),
			act:   func(r *rig) { r.crash("a"); r.gone("c") },
			trace: "stop c, stop b", states: "a waiting, b stopping, c waiting",
		}, {
			name: "rest_for_one leaves those before alone", spec: rest("a", "b", "c", "d"), auto: true,
			act:   func(r *rig) { r.crash("b") },
			trace: "stop d, stop c, start b, start c, start d", states: "a running, b running, c running, d running",
		}, {
			name: "each waits for the one before it", spec: rest("a", "b", "c"), auto: true,
			act: func(r *rig) {
				r.k.byID["b"].policy = &policy{waitReady: true}
				r.crash("a")
			},
			trace: "stop c, stop b, start a, start b", states: "a running, b starting, c waiting",
		}, {
			name: "temporary siblings are stopped and forgotten", spec: all("a:temporary", "b", "c:temporary"), auto: true,
			act:   func(r *rig) { r.crash("b") },
			trace: "stop c, stop a, start b", states: "b running",
		}, {
			name: "one_for_all starts what had ended or was terminated", spec: all("a:transient", "b", "c"), auto: true,
			act:   func(r *rig) { r.exit("a", fine); r.terminate("b"); r.trace(); r.crash("c") },
			trace: "start a, start b, start c", states: "a running, b running, c running",
		}, {
			name: "but not what was suspended", spec: all("a", "b", "c"), auto: true,
			act:   func(r *rig) { r.suspend("a"); r.trace(); r.crash("c") },
			trace: "stop b, start b, start c", states: "a suspended, b running, c running",
		}, {
			name: "a second failure before the group makes it larger", spec: rest("a", "b", "c"),
			act:   func(r *rig) { r.crash("b", "a"); r.gone("c") },
			trace: "stop c, start a, start b, start c", states: "a running, b running, c running",
		}, {
			name: "a member that fails while its turn to stop has not come is not counted", spec: all("a", "b", "c"),
			act:   func(r *rig) { r.crash("a", "b"); r.gone("c") },
			trace: "stop c, start a, start b, start c", states: "a running, b running, c running",
		}, {
			name: "one_for_all: a failing start begins from the front", spec: all("a", "b:ready"), auto: true,
			act: func(r *rig) {
				r.ready("b")
				r.crash("a")
				r.trace()
				r.crash("b")
			},
			trace: "stop a, start a, start b", states: "a running, b starting",
		}, {
			name: "rest_for_one: a failing start begins from itself", spec: rest("a", "b:ready", "c"), auto: true,
			act: func(r *rig) {
				r.ready("b")
				r.crash("a")
				r.trace()
				r.crash("b")
			},
			trace: "start b", states: "a running, b starting, c waiting",
		}, {
			name: "the group is down during the delay of its trigger", spec: rest("a", "b:fixed", "c"), auto: true,
			act:   func(r *rig) { r.crash("b") },
			trace: "timer b 1s, stop c", states: "a running, b restarting, c waiting",
		}, {
			name: "and up after it", spec: rest("a", "b:fixed", "c"), auto: true,
			act:   func(r *rig) { r.crash("b"); r.advance(time.Second) },
			trace: "timer b 1s, stop c, start b, start c", states: "a running, b running, c running",
		}, {
			name: "the delay may end before the last has stopped", spec: rest("a", "b:fixed", "c"),
			act:   func(r *rig) { r.crash("b"); r.advance(time.Second); r.trace(); r.gone("c") },
			trace: "start b, start c", states: "a running, b running, c running",
		}, {
			name: "another failure joins the group during the delay", spec: rest("a", "b:fixed", "c"), auto: true,
			act:   func(r *rig) { r.crash("b"); r.trace(); r.crash("a") },
			trace: "cancel b, start a, start b, start c", states: "a running, b running, c running",
		}, {
			name: "to terminate the trigger leaves its group down", spec: rest("a", "b:fixed", "c"), auto: true,
			act:   func(r *rig) { r.crash("b"); r.trace(); r.terminate("b") },
			trace: "cancel b", states: "a running, b stopped, c stopped",
		}, {
			name: "also while the group is being stopped", spec: rest("a", "b", "c"),
			act:   func(r *rig) { r.crash("b"); r.terminate("b"); r.trace(); r.gone("c") },
			trace: "", states: "a running, b stopped, c stopped",
		}, {
			name: "a member terminated while it is being stopped stays down", spec: all("a", "b", "c"),
			act:   func(r *rig) { r.crash("a"); r.terminate("c"); r.gone("c", "b") },
			trace: "stop c, stop b, start a, start b", states: "a running, b running, c stopped",
		}, {
			name: "a child added during a group's restart has its turn", spec: all("a", "b"),
			act:   func(r *rig) { r.crash("a"); r.add(kids("c")[0]); r.gone("b") },
			trace: "stop b, start a, start b, start c", states: "a running, b running, c running",
		}, {
			name: "a child that ignores a restart is listed and the others go on", spec: all("a:ready", "b"), auto: true,
			act: func(r *rig) {
				r.ready("a")
				r.crash("b")
				r.trace()
				r.exit("a", Exit{Kind: Ignored, Err: ErrIgnore})
			},
			trace: "start b", states: "a stopped, b running",
		}, {
			name: "instances are restarted alone", spec: Spec{Strategy: SimpleOneForOne, Children: kids("t")},
			act:   func(r *rig) { r.instance("1"); r.instance("2"); r.crash("1") },
			trace: "start 1, idle false, start 2, start 1", states: "1 running, 2 running",
		}, {
			name: "an instance that ignores is not listed", spec: Spec{Strategy: SimpleOneForOne, Children: kids("t:ready")},
			act:   func(r *rig) { r.instance("1"); r.exit("1", Exit{Kind: Ignored, Err: ErrIgnore}) },
			trace: "start 1, idle false, idle true", states: "",
		},
	})
}

func TestRestartTypes(t *testing.T) {
	rows := []struct {
		restart Restart
		exit    Exit
		action  Action
		reason  Reason
		states  string
	}{
		{Permanent, fine, RestartIt, ReasonPermanent, "a running"},
		{Permanent, asked, RestartIt, ReasonPermanent, "a running"},
		{Permanent, boom, RestartIt, ReasonPermanent, "a running"},
		{Transient, fine, Leave, ReasonTransientClean, "a stopped"},
		{Transient, asked, Leave, ReasonTransientClean, "a stopped"},
		{Transient, boom, RestartIt, ReasonTransientFailed, "a running"},
		{Transient, Exit{Kind: Panicked}, RestartIt, ReasonTransientFailed, "a running"},
		{Transient, Exit{Kind: Killed}, RestartIt, ReasonTransientFailed, "a running"},
		{Transient, Exit{Kind: Lost}, RestartIt, ReasonTransientFailed, "a running"},
		{Temporary, fine, Forget, ReasonTemporary, ""},
		{Temporary, asked, Forget, ReasonTemporary, ""},
		{Temporary, boom, Forget, ReasonTemporary, ""},
	}
	for _, row := range rows {
		t.Run(row.restart.String()+" "+row.exit.Kind.String(), func(t *testing.T) {
			spec := one("a")
			spec.Children[0].Restart = row.restart
			r := newRig(t, spec)
			r.exit("a", row.exit)
			r.check()
			r.wantStates(row.states)
			if d := r.last(); d.Action != row.action || d.Reason != row.reason {
				t.Errorf("decision %v", d)
			}
		})
	}
}
