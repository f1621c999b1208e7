package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/asking"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
)

// vitals are how living incarnations get on, by path.
type vitals struct {
	mu     sync.Mutex
	byPath map[string]*vital
}

// vital is how one incarnation gets on: what package liveness knows of it, and
// who carries out what that decides.
type vital struct {
	c     *Controller
	who   api.Caller
	since time.Time // that it is known

	mu      sync.Mutex
	watch   liveness.Watch
	process *process                          // once it is ready
	asks    int                               // requests in which it waits for an answer
	waited  time.Time                         // for an answer, last
	finish  map[*context.CancelCauseFunc]bool // ends what waits until it is asked to finish
	asking  sync.WaitGroup
	ended   context.Context // over when the incarnation is
	end     context.CancelFunc
	timer   *time.Timer // to the next look
	looking bool        // the last look is not over
	looks   bool        // it has looked whether it is to finish
	failed  bool        // it has ended as a failure, or could not start
	over    bool
}

// beginVitals takes note of an incarnation that lives from now on.
func (c *Controller) beginVitals(who api.Caller) {
	c.vitals.mu.Lock()
	defer c.vitals.mu.Unlock()
	if v := c.vitals.byPath[who.Path]; v != nil && v.who == who {
		return
	}
	v := &vital{c: c, who: who, since: time.Now()}
	v.ended, v.end = context.WithCancel(context.Background())
	c.vitals.byPath[who.Path] = v
}

// endVitals forgets an incarnation that has ended. When it returns, nothing that
// this has left behind waits for an answer any more.
func (c *Controller) endVitals(who api.Caller) {
	c.vitals.mu.Lock()
	v := c.vitals.byPath[who.Path]
	if v == nil || v.who != who {
		c.vitals.mu.Unlock()
		return
	}
	delete(c.vitals.byPath, who.Path)
	c.vitals.mu.Unlock()
	v.mu.Lock()
	v.over = true
	if v.timer != nil {
		v.timer.Stop()
	}
	v.mu.Unlock()
	v.end()
	v.asking.Wait()
}

// vital returns how an agent gets on; nil if it does not live.
func (c *Controller) vital(path string) *vital {
	c.vitals.mu.Lock()
	defer c.vitals.mu.Unlock()
	return c.vitals.byPath[path]
}

// attend begins to watch an incarnation that is ready.
func (c *Controller) attend(who api.Caller, p *process, a *spec.Agent) {
	v := c.vital(who.Path)
	if v == nil || v.who != who {
		return // ended already
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.process = p
	v.watch.Begin(time.Now(), liveness.Timeouts{Heartbeat: a.HeartbeatTimeout, Progress: a.ProgressTimeout, Nudge: a.Nudge.Exists()})
	v.wait()
}

// waits notes that something may have changed in whether an agent waits for a person.
func (c *Controller) waits(path string) {
	if v := c.vital(path); v != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.wait()
	}
}

// awaits waits in the name of an incarnation for an answer, not longer than that lives.
func (c *Controller) awaits(ctx context.Context, who api.Caller, wait func(context.Context) error) error {
	v := c.vital(who.Path)
	if v == nil || v.who != who || !v.asksMore(1) {
		return stale(who)
	}
	defer v.asking.Done()
	defer v.asksMore(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(v.ended, func() { cancel(stale(who)) })()
	err := wait(ctx)
	if v.ended.Err() != nil {
		return stale(who)
	}
	return err
}

// untilDrained ends a context of an incarnation when that is asked to finish, or
// has been.
func (c *Controller) untilDrained(ctx context.Context, who api.Caller) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	v := c.vital(who.Path)
	if v == nil || v.who != who {
		cancel(stale(who))
		return ctx, func() {}
	}
	v.mu.Lock()
	if v.finish == nil {
		v.finish = make(map[*context.CancelCauseFunc]bool)
	}
	v.finish[&cancel] = true
	v.mu.Unlock()
	if c.drains.Has(who.Path) {
		cancel(errFinish)
	}
	return ctx, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.finish, &cancel)
		cancel(nil)
	}
}

// awaitsTask reports whether an agent waits for a task.
func (c *Controller) awaitsTask(path string) bool {
	v := c.vital(path)
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.finish) > 0
}

// drains ends what waits until the incarnation is asked to finish.
func (v *vital) drains() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for cancel := range v.finish {
		(*cancel)(errFinish)
	}
}

// asksMore counts the requests in which the incarnation waits, unless it is over.
func (v *vital) asksMore(n int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over && n > 0 {
		return false
	}
	if n > 0 {
		v.asking.Add(n)
	}
	v.asks += n
	v.wait()
	return true
}

func stale(who api.Caller) error {
	return fmt.Errorf("%w: incarnation %d of %s", api.ErrStale, who.Incarnation, who.Path)
}

// wait finds out whether the incarnation waits for a person: somebody holds the
// line for it, or a question that it has asked itself is open. Needs mu.
func (v *vital) wait() {
	waits := v.asks > 0 || slices.ContainsFunc(v.c.desk.List(v.who.Path, false), func(q asking.Question) bool {
		return q.Incarnation == v.who.Incarnation
	})
	now := time.Now()
	if waits || v.watch.State().Waiting {
		v.waited = now
	}
	v.watch.Wait(now, waits)
	v.arm()
}

// arm sets the timer to the next look. Needs mu.
func (v *vital) arm() {
	if v.timer != nil {
		v.timer.Stop()
	}
	if due := v.watch.Due(); !due.IsZero() && !v.over && !v.looking && v.process != nil {
		v.timer = time.AfterFunc(time.Until(due), func() { v.c.background.run(v.look) })
	}
}

// look does what is due.
func (v *vital) look(ctx context.Context) {
	v.mu.Lock()
	p := v.process
	if v.over || v.looking || p.leaves() {
		v.mu.Unlock()
		return
	}
	v.looking = true
	suspected := v.watch.State().Suspected
	v.mu.Unlock()
	o := p.session.Observe()
	if suspected && !o.Said.Since.IsZero() && asked(p.session) { // WATCHDOG=1 may be on its way
		o = p.session.Observe()
	}
	v.mu.Lock()
	recovered := o.Said.Alive.After(v.watch.State().Heartbeat) && v.watch.Sign(o.Said.Alive)
	a := v.watch.Tick(time.Now(), o.Life == runtime.Alive)
	state := v.watch.State()
	v.mu.Unlock()
	if recovered {
		v.c.responsive(v.who)
	}
	switch a.Step {
	case liveness.Probe:
		v.probe(ctx, p.session, a, state)
	case liveness.Nudge:
		v.nudge(ctx, a)
	case liveness.Condemn:
		if p.condemn(errors.New(a.Reason), 0) {
			v.tell(event.AgentCondemned, v.who.Path+" is ended as a failure: "+a.Reason, a, nil)
		}
	}
	v.mu.Lock()
	v.looking = false
	v.arm()
	v.mu.Unlock()
}

// tell writes an event about an action of the ladder.
func (v *vital) tell(kind event.Type, message string, a liveness.Action, data map[string]any) {
	if data == nil {
		data = map[string]any{}
	}
	data["cause"], data["reason"] = a.Cause.String(), a.Reason
	v.c.log.Append(event.Event{
		Type: kind, Path: v.who.Path, Incarnation: v.who.Incarnation, Actor: "controller", Message: message,
	}.With(data))
}

// probeTime is how long a look at an agent may take.
const probeTime = 2 * time.Second

// probe tells what can be seen of an agent from outside. Output is no sign of
// life, but whoever reads this wants to know of it.
func (v *vital) probe(ctx context.Context, s runtime.Session, a liveness.Action, state liveness.State) {
	o := s.Observe()
	seen := fmt.Sprintf("process %d", o.PID)
	data := map[string]any{"pid": o.PID}
	if doing := proc.Doing(o.PID); doing != "" {
		seen += " is " + doing
		data["process"] = doing
	} else {
		seen += " lives"
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if last, err := s.LastActivity(ctx); err == nil && last.After(o.StartedAt) {
		ago := max(0, time.Since(last))
		seen += fmt.Sprintf(", last output %v ago", ago.Round(time.Second))
		data["output_age_seconds"] = ago.Seconds()
	}
	if claim := liveness.Claim(state.Number, state.Note); claim != "" {
		data["claim"] = claim
	}
	v.tell(event.AgentUnresponsive, fmt.Sprintf("%s: %s; %s", v.who.Path, a.Reason, seen), a, data)
}

// What is typed into the terminal of an agent that is not heard of.
const (
	silentText = "coppice: there was no sign of you for some time. Please run: coppice agent heartbeat"
	stuckText  = "coppice: your progress is the same for some time. Please run: coppice agent heartbeat --progress N"
)

func (v *vital) nudge(ctx context.Context, a liveness.Action) {
	text := silentText
	if a.Cause == liveness.Progress {
		text = stuckText
	}
	v.c.nudge(ctx, v.who.Path, text)
}

// sign notes that something was heard of an incarnation.
func (c *Controller) sign(who api.Caller) {
	c.heardOf(who, func(w *liveness.Watch, now time.Time) bool { return w.Sign(now) })
}

// heardOf changes what is known of an incarnation, and tells when that puts an
// end to a suspicion.
func (c *Controller) heardOf(who api.Caller, change func(*liveness.Watch, time.Time) (recovered bool)) {
	v := c.vital(who.Path)
	if v == nil || v.who != who {
		return
	}
	v.mu.Lock()
	recovered := change(&v.watch, time.Now())
	v.mu.Unlock()
	if recovered {
		c.responsive(who)
	}
}

func (c *Controller) responsive(who api.Caller) {
	c.log.Append(event.Event{
		Type: event.AgentResponsive, Path: who.Path, Incarnation: who.Incarnation, Actor: who.Path, Message: who.Path + " gets on again",
	})
}

// readyPause is the time between two tries to tell a runtime that an agent is
// ready: the agent may be faster than the news of its own start.
const readyPause = 50 * time.Millisecond

var errNotReadyYet = fmt.Errorf("%w: its start is not finished", api.ErrConflict)

// Ready is part of api.Selves.
func (c *Controller) Ready(ctx context.Context, who api.Caller) error {
	for {
		v := c.vital(who.Path)
		if v == nil || v.who != who {
			return stale(who)
		}
		if v.isReady() {
			return nil
		}
		a, home := c.fleet().agents[who.Path], c.home(who.Path)
		if a == nil {
			return stale(who)
		}
		var err error
		switch {
		case a.Ready.Notify:
			err = home.Ready(ctx, who.Path, who.Incarnation)
		case a.Ready.Stated():
			return fmt.Errorf("%w: %s does not say itself when it is ready; that takes ready = { notify = true } in the file", api.ErrConflict, who.Path)
		default: // it is ready as soon as its start is known here
			err = errNotReadyYet
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(readyPause):
		case <-ctx.Done():
			return err
		}
	}
}

// fails notes that the incarnation has ended as a failure, or could not start.
func (c *Controller) fails(who api.Caller) {
	if v := c.vital(who.Path); v != nil && v.who == who {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.failed = true
	}
}

// looksForDrains notes that an incarnation looks whether it is to finish: it can be asked to.
func (c *Controller) looksForDrains(who api.Caller) {
	if v := c.vital(who.Path); v != nil && v.who == who {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.looks = true
	}
}

func (v *vital) looksForDrains() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.looks
}

func (v *vital) hasFailed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.failed
}

func (v *vital) isReady() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.process != nil
}

// Heartbeat is part of api.Selves.
func (c *Controller) Heartbeat(_ context.Context, who api.Caller, b api.Beat) error {
	note := brief(b.Note)
	c.heardOf(who, func(w *liveness.Watch, now time.Time) bool { return w.Progress(now, b.Progress, note) })
	return nil
}

// brief makes what somebody says fit to be kept and shown: one line of at most
// api.MaxNote bytes.
func brief(text string) string { return proc.OneLine(text, api.MaxNote) }

// shown is how an agent gets on, for people; nil if there is nothing to say.
func (v *vital) shown() *api.Vitals {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	s := v.watch.State()
	v.mu.Unlock()
	if !s.Heard && s.Timeouts.Heartbeat == 0 && s.Timeouts.Progress == 0 {
		return nil
	}
	n := &api.Vitals{
		HeartbeatTimeout: s.Timeouts.Heartbeat.Seconds(), Progress: s.Number, Note: s.Note,
		ProgressTimeout: s.Timeouts.Progress.Seconds(), Unresponsive: s.Suspected, Waiting: s.Waiting,
	}
	if s.Heard {
		age := time.Since(s.Heartbeat).Seconds()
		n.Heartbeat = &age
	}
	if s.Number != nil || s.Note != "" || s.Timeouts.Progress > 0 {
		n.ProgressAge = time.Since(s.Progress).Seconds()
	}
	return n
}

// vitalEvidence is the same in words.
func vitalEvidence(v *api.Vitals) (facts []string) {
	if v == nil {
		return nil
	}
	of := func(seconds float64) string {
		if seconds == 0 {
			return ""
		}
		return "; the limit is " + liveness.Brief(asDuration(seconds))
	}
	switch {
	case v.Heartbeat != nil:
		facts = append(facts, fmt.Sprintf("last heartbeat %s ago%s", liveness.Brief(asDuration(*v.Heartbeat).Round(time.Second)), of(v.HeartbeatTimeout)))
	case v.HeartbeatTimeout > 0:
		facts = append(facts, "no heartbeat yet; the limit is "+liveness.Brief(asDuration(v.HeartbeatTimeout)))
	}
	if claim := liveness.Claim(v.Progress, v.Note); claim != "" || v.ProgressTimeout > 0 {
		if claim == "" {
			claim = "none claimed"
		}
		facts = append(facts, fmt.Sprintf("progress %s, unchanged for %s%s", claim, liveness.Brief(asDuration(v.ProgressAge).Round(time.Second)), of(v.ProgressTimeout)))
	}
	switch {
	case v.Waiting && (v.HeartbeatTimeout > 0 || v.ProgressTimeout > 0):
		facts = append(facts, "it waits for a person or a task, and may be silent until then")
	case v.Unresponsive:
		facts = append(facts, "it is unresponsive: it is ended as a failure, and restarted, unless it reports soon")
	}
	return facts
}

func asDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
