package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// rig drives the pure core by hand: its children are names in a table and its
// clock is a number. What the core wants done is written down as words, in
// order, such as "start b" or "timer a 2s"; trace returns those since the
// last call.
type rig struct {
	t     testing.TB
	k     *core
	auto  bool // children end at once when they are asked to
	words []string
	told  []string                 // what waits for a start has been told, where that is an error
	lives map[*child]bool          // the incarnations that a runner would have
	due   map[*child]time.Duration // the timers that a runner would have
	ended bool
	seen  []Event
}

var errBoom = errors.New("boom")

var (
	boom  = Exit{Kind: Failure, Err: errBoom}
	fine  = Exit{Kind: Normal}
	asked = Exit{Kind: ShutDown}
)

func idle(ctx context.Context) error { <-ctx.Done(); return nil }

// kids makes child specs from words such as "a", "b:transient", "c:temporary,ready".
func kids(words ...string) []ChildSpec {
	var all []ChildSpec
	for _, w := range words {
		id, rest, _ := strings.Cut(w, ":")
		c := ChildSpec{ID: id, Run: idle}
		for _, flag := range strings.Split(rest, ",") {
			switch flag {
			case "":
			case "transient":
				c.Restart = Transient
			case "temporary":
				c.Restart = Temporary
			case "significant":
				c.Significant = true
			case "ready":
				c.WaitReady = true
			case "fixed":
				c.Backoff = Backoff{Kind: Fixed}
			case "linear":
				c.Backoff = Backoff{Kind: Linear}
			case "fail":
				c.OnAbandon = Fail
			default:
				panic("kids: " + flag)
			}
		}
		all = append(all, c)
	}
	return all
}

// newRig starts a core for a valid spec.
func newRig(t testing.TB, spec Spec) *rig {
	t.Helper()
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	s := newSupervisor(context.Background(), spec, spec.path(), 1)
	r := &rig{t: t, k: &s.core, lives: map[*child]bool{}, due: map[*child]time.Duration{}}
	s.core.hooked = true
	r.step(func() { r.k.boot(spec) })
	return r
}

// step lets the core decide about one thing, and does what it says.
func (r *rig) step(f func()) {
	r.t.Helper()
	f()
	for {
		r.k.settle()
		r.perform()
		if r.k.rest == nil {
			return
		}
		r.k.walkStart(r.k.rest)
	}
}

func (r *rig) perform() {
	r.t.Helper()
	var ending []*child
	for n := 0; n < len(r.k.out); n++ {
		a := r.k.out[n]
		switch a.do {
		case doStart:
			if r.lives[a.c] {
				r.t.Fatalf("%s started while it is alive", a.c.id)
			}
			r.lives[a.c] = true
			r.say("start %s", a.c.id)
		case doStop:
			if !r.lives[a.c] {
				r.t.Fatalf("%s stopped while it is not alive", a.c.id)
			}
			r.say("stop %s", a.c.id)
			ending = append(ending, a.c)
		case doKill:
			r.say("kill %s", a.c.id)
		case doTimer:
			if _, running := r.due[a.c]; running {
				r.t.Fatalf("%s has two timers", a.c.id)
			}
			r.due[a.c] = r.k.now + a.d
			r.say("timer %s %v", a.c.id, a.d)
		case doCancel:
			delete(r.due, a.c)
			r.say("cancel %s", a.c.id)
		case tellStarted:
			if a.err != nil {
				r.told = append(r.told, fmt.Sprintf("%s: %v", a.c.id, a.err))
			}
		case tellStopped:
		case tellUp:
			r.say("up")
		case tellIdle:
			r.say("idle %v", r.k.idle)
		case tellEnd:
			if !r.ended {
				if final := r.k.final; final.Err != nil {
					r.say("end %v: %v", final.Kind, final.Err)
				} else {
					r.say("end %v", final.Kind)
				}
			}
			r.ended = true
		default:
			r.t.Fatalf("unknown action %d", a.do)
		}
	}
	r.k.out = nil
	r.k.fillSnapshots()
	r.seen = append(r.seen, r.k.events...)
	r.k.events = nil
	if r.auto {
		for _, c := range ending {
			if r.lives[c] {
				r.exit(c.id, asked)
			}
		}
	}
}

func (r *rig) say(format string, args ...any) {
	r.words = append(r.words, fmt.Sprintf(format, args...))
}

// trace returns what has been said, and forgets it.
func (r *rig) trace() string {
	s := strings.Join(r.words, ", ")
	r.words = nil
	return s
}

// want compares the trace.
func (r *rig) want(trace string) {
	r.t.Helper()
	if got := r.trace(); got != trace {
		r.t.Errorf("trace\n got %s\nwant %s", got, trace)
	}
}

// states is the list of the children with their states.
func (r *rig) states() string {
	var all []string
	for c := r.k.head; c != nil; c = c.next {
		all = append(all, c.id+" "+c.state.String())
	}
	return strings.Join(all, ", ")
}

func (r *rig) wantStates(states string) {
	r.t.Helper()
	if got := r.states(); got != states {
		r.t.Errorf("states\n got %s\nwant %s", got, states)
	}
}

// child finds a living or listed child.
func (r *rig) child(id string) *child {
	r.t.Helper()
	if c := r.k.byID[id]; c != nil {
		return c
	}
	for c := range r.lives {
		if c.id == id {
			return c
		}
	}
	r.t.Fatalf("no child %s", id)
	return nil
}

// exit: the incarnation of a child ends.
func (r *rig) exit(id string, e Exit) {
	r.t.Helper()
	c := r.child(id)
	if !r.lives[c] {
		r.t.Fatalf("%s is not alive", id)
	}
	delete(r.lives, c)
	r.step(func() { r.k.exited(c, e) })
}

// gone: a child ends as it was asked to.
func (r *rig) gone(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		r.exit(id, asked)
	}
}

func (r *rig) crash(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		r.exit(id, boom)
	}
}

func (r *rig) ready(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		r.step(func() { r.k.started(r.child(id)) })
	}
}

// late: the start timeout of a child is over.
func (r *rig) late(id string) {
	r.t.Helper()
	r.step(func() { r.k.stop(r.child(id), planFail, ReasonStartFailed) })
}

// abandon: a child does not end as it was asked to.
func (r *rig) abandon(id string) {
	r.t.Helper()
	c := r.child(id)
	delete(r.lives, c)
	err := &AbandonedError{Path: id}
	r.step(func() { r.k.abandoned(c, Exit{Kind: Abandoned, Err: err}, err) })
}

func (r *rig) terminate(id string) {
	r.step(func() { r.k.terminate(r.child(id), planDown, ReasonTerminated) })
}
func (r *rig) suspend(id string) {
	r.step(func() { r.k.terminate(r.child(id), planSuspend, ReasonTerminated) })
}

func (r *rig) add(spec ChildSpec) (err error) {
	r.step(func() { _, err = r.k.add(spec) })
	return err
}

func (r *rig) instance(id string) (err error) {
	r.step(func() { _, err = r.k.addInstance(id, nil) })
	return err
}

func (r *rig) restart(id string) (err error) {
	r.step(func() { err = r.k.restart(r.child(id)) })
	return err
}

func (r *rig) remove(id string) (err error) {
	r.step(func() { err = r.k.remove(r.child(id)) })
	return err
}

func (r *rig) renew(id string) (err error) {
	r.step(func() { err = r.k.renew(r.child(id), ReasonChanged, false) })
	return err
}

func (r *rig) renewCounted(id string) (err error) {
	r.step(func() { err = r.k.renew(r.child(id), ReasonRequested, true) })
	return err
}

func (r *rig) restartCounted(id string) (err error) {
	r.step(func() { err = r.k.restartCounted(r.child(id), errBoom) })
	return err
}

func (r *rig) ensure(id string) (err error) {
	r.step(func() { err = r.k.ensure(r.child(id)) })
	return err
}

// terminateFor is terminate with a reason.
func (r *rig) terminateFor(id string, why Reason) {
	r.step(func() { r.k.terminate(r.child(id), planDown, why) })
}

func (r *rig) reset(id string) { r.step(func() { r.k.reset(r.child(id)) }) }
func (r *rig) resume()         { r.step(r.k.resume) }
func (r *rig) stop()           { r.step(func() { r.k.shutdown(asked, ReasonShutdown) }) }
func (r *rig) kill()           { r.step(r.k.kill) }
func (r *rig) update(s Spec)   { r.step(func() { r.k.update(s) }) }

// advance lets time pass; timers go off on the way, the earliest first.
func (r *rig) advance(d time.Duration) {
	r.t.Helper()
	until := r.k.now + d
	for {
		var next *child
		for c, at := range r.due {
			if at <= until && (next == nil || at < r.due[next] || at == r.due[next] && c.seq < next.seq) {
				next = c
			}
		}
		if next == nil {
			break
		}
		r.k.now = max(r.k.now, r.due[next])
		delete(r.due, next)
		r.step(func() { r.k.timeUp(next) })
	}
	r.k.now = until
}

// decisions of the exits and failed starts so far.
func (r *rig) decisions() []Decision {
	var all []Decision
	for _, e := range r.seen {
		switch e := e.(type) {
		case ChildExited:
			all = append(all, e.Decision)
		case ChildStartFailed:
			all = append(all, e.Decision)
		}
	}
	return all
}

// last decision.
func (r *rig) last() Decision {
	r.t.Helper()
	all := r.decisions()
	if len(all) == 0 {
		r.t.Fatal("nothing was decided")
	}
	return all[len(all)-1]
}

// check compares what the core counts with what walking the children gives.
func (r *rig) check() {
	r.t.Helper()
	if err := r.invalid(); err != nil {
		r.t.Fatalf("%v\nstates: %s", err, r.states())
	}
}

func (r *rig) invalid() error {
	k := r.k
	var want tally
	var prev *child
	for c := k.head; c != nil; c = c.next {
		if c.prev != prev || prev != nil && prev.seq >= c.seq {
			return fmt.Errorf("the order is broken at %s", c.id)
		}
		if k.byID[c.id] != c {
			return fmt.Errorf("%s is not in the index", c.id)
		}
		prev = c
		want.specs++
		if c.policy.typ == SupervisorType {
			want.supervisors++
		}
		if c.state.alive() {
			want.alive++
		}
		if c.live() {
			want.live++
		}
		if c.state == Waiting {
			want.waiting++
		}
		if c.state == Paused {
			want.paused++
		}
		if c.policy.significant && (c.state.present() || c.state == Waiting) {
			want.present++
		}
		if c.state.alive() != r.lives[c] {
			return fmt.Errorf("%s is %v, lives: %v", c.id, c.state, r.lives[c])
		}
		_, timed := r.due[c]
		if n := c.more != nil && c.more.nextAt != 0; n != timed {
			return fmt.Errorf("%s is %v, next try scheduled: %v, timer: %v", c.id, c.state, n, timed)
		}
	}
	switch {
	case k.tail != prev:
		return errors.New("the tail is wrong")
	case len(k.byID) != want.specs:
		return fmt.Errorf("the index has %d children of %d", len(k.byID), want.specs)
	case k.tally != want:
		return fmt.Errorf("tally %+v, children %+v", k.tally, want)
	}
	for c := range r.lives {
		if k.byID[c.id] != c {
			return fmt.Errorf("%s lives and is not listed", c.id)
		}
	}
	return nil
}

// stuck names what no timer or message will ever change: a child that waits for
// its turn while no operation is in progress, or for a probe that is not there.
func (r *rig) stuck() error {
	k := r.k
	if k.op == opDown {
		return nil
	}
	for c := k.head; c != nil; c = c.next {
		_, timed := r.due[c]
		switch {
		case c.state == Waiting && k.op == opNone:
			return fmt.Errorf("%s waits, and no group is being restarted", c.id)
		case (c.state == Restarting || c.state == Quarantined) && !timed:
			return fmt.Errorf("%s is %v without a timer", c.id, c.state)
		case c.state == Paused && !k.paused && !(k.probing && k.probe != nil && k.probe.state.alive()):
			return fmt.Errorf("%s is paused, and neither is the supervisor nor does a probe run", c.id)
		}
	}
	if k.probing && k.probe != nil && !slices.Contains([]State{Starting, Running, Stopping}, k.probe.state) && !(k.op == opGroup) {
		return fmt.Errorf("the probe %s is %v", k.probe.id, k.probe.state)
	}
	return nil
}
