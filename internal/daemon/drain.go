package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/liveness"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// drain is an incarnation that was asked to finish, and is stopped by then. It
// is kept in the store until it is done.
type drain struct {
	Path        string    `json:"path"`
	Incarnation uint64    `json:"incarnation"`
	Reason      string    `json:"reason,omitempty"`
	Until       time.Time `json:"until"`
	SavedAt     time.Time `json:"saved_at"` // by the clock that Until is of
	Finished    bool      `json:"finished,omitempty"`
	Renew       bool      `json:"renew,omitempty"` // it is started again then
	Pool        bool      `json:"pool,omitempty"`  // it is an instance that its pool does not want any more

	deadline time.Time     // Until, on the monotonic clock
	finished chan struct{} // closed when it says that it has finished
	ended    chan struct{} // closed when its incarnation has ended
	canceled chan struct{} // closed when it may go on
	done     chan struct{} // closed when it is stopped, or may go on
	err      error         // why it is not stopped; valid after done

	mu    sync.Mutex
	final bool   // it is being stopped, or may go on
	how   string // what has made its pool stop it
}

const drainPrefix = "drains"

// drainPause is the time between two tries to stop an agent that was drained.
const drainPause = 500 * time.Millisecond

const drainText = "coppice: you are asked to finish what you do. Please run: coppice agent hook"

func (d *drain) key() string { return drainPrefix + "/" + storePath(d.Path) }

func (d *drain) open(left time.Duration) {
	d.deadline = time.Now().Add(left)
	d.finished, d.ended, d.canceled, d.done = make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	if d.Finished {
		close(d.finished)
	}
}

// left is how much time it has.
func (d *drain) left() time.Duration { return max(0, time.Until(d.deadline)) }

// close closes one of its channels, once.
func (d *drain) close(c chan struct{}) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-c:
		return false
	default:
		close(c)
		return true
	}
}

// settle reports whether the caller is the one who decides what becomes of it.
func (d *drain) settle() bool { return d.settleAs("") }

// settleAs is settle that notes what it was decided on.
func (d *drain) settleAs(how string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.final {
		return false
	}
	d.final, d.how = true, how
	return true
}

// decided is what settleAs has noted.
func (d *drain) decided() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.how
}

// renews reports whether it is started again when it has finished.
func (d *drain) renews() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Renew
}

// forGood makes it one that ends with a stop.
func (d *drain) forGood() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Renew = false
}

func (d *drain) hasFinished() bool {
	select {
	case <-d.finished:
		return true
	default:
		return false
	}
}

func (d *drain) hasEnded() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// op writes it.
func (d *drain) op() store.Op {
	value, _ := json.Marshal(d) // strings, numbers and times of this century
	return store.Op{Kind: store.Put, Key: d.key(), Value: value}
}

func (d *drain) shown() *api.Drain {
	if d == nil {
		return nil
	}
	return &api.Drain{Reason: d.Reason, Left: d.left().Seconds(), Finished: d.hasFinished()}
}

// notice is what its agent is told.
func (d *drain) notice() api.Notice {
	text := "You are asked to finish what you do"
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	return api.Notice{Kind: "drain", Text: fmt.Sprintf("%s. Run \"coppice agent drain-ack\" when you have; you are stopped then, and in %s in any case.",
		text, liveness.Brief(d.left().Round(time.Second)))}
}

// drainOf is the drain of an agent; nil if it is not asked to finish.
func (c *Controller) drainOf(path string) *drain {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drains[path]
}

// Drain is part of api.Drains.
func (c *Controller) Drain(ctx context.Context, req api.DrainRequest) error {
	path := c.full(req.Path)
	if c.fleet().agents[path] == nil && c.fleet().nodes[path] == nil {
		return c.noNode(path)
	}
	timeout := time.Duration(req.Timeout * float64(time.Second))
	if timeout == 0 {
		timeout = api.DefaultDrain
	}
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for agent := range c.fleet().agents {
		if agent == path || strings.HasPrefix(agent, path+"/") {
			wg.Go(func() {
				err := c.drain(ctx, agent, timeout, req)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// drain drains one agent. One that does not live is stopped at once.
func (c *Controller) drain(ctx context.Context, path string, timeout time.Duration, req api.DrainRequest) error {
	sup, id, err := c.locate(path)
	if err != nil {
		return err
	}
	info, err := c.child(sup, id)
	if err != nil {
		return notFound(path, err)
	}
	if d := c.drainOf(path); d != nil {
		d.forGood()
		return d.wait(ctx)
	}
	if req.Again { // what became of the drain is known, if its end is
		if info.State == supervisor.Suspended {
			return nil
		}
		return errNotDrained(path)
	}
	if info.State != supervisor.Running && info.State != supervisor.Starting {
		return c.Act(ctx, path, api.Stop)
	}
	reason := brief(req.Reason)
	c.dropRestart(path, 0, "it is asked to finish")
	return c.beginDrain(&drain{Path: path, Incarnation: info.Incarnation, Reason: reason}, timeout, "user").wait(ctx)
}

// drainToRenew asks an incarnation to finish, to be started again then.
func (c *Controller) drainToRenew(path string, incarnation uint64, timeout time.Duration, reason string) {
	c.beginDrain(&drain{Path: path, Incarnation: incarnation, Reason: brief(reason), Renew: true}, timeout, "controller")
}

// beginDrain begins a drain, unless there is one, and returns the one that there is then.
func (c *Controller) beginDrain(d *drain, timeout time.Duration, actor string) *drain {
	path, reason, now := d.Path, d.Reason, time.Now()
	d.Until, d.SavedAt = now.Add(timeout), now
	d.open(timeout)
	c.mu.Lock()
	if before := c.drains[path]; before != nil {
		c.mu.Unlock()
		if !d.Renew {
			before.forGood()
		}
		return before
	}
	c.drains[path] = d
	c.mu.Unlock()
	if c.vital(path) == nil { // it has ended since
		d.close(d.ended)
	}
	message := fmt.Sprintf("%s is asked to finish within %s", path, liveness.Brief(timeout))
	if reason != "" {
		message += ": " + reason
	}
	err := c.record(event.Event{
		Type: event.AgentDraining, Path: path, Incarnation: d.Incarnation, Actor: actor, Message: message,
	}.With(map[string]any{"reason": reason, "until": d.Until}), d.op())
	if err != nil { // as a stop by hand, it does not depend on the store
		c.opts.Logger.Warn("a drain may not survive this controller", "path", path, "error", err)
	}
	c.background.run(func(ctx context.Context) { c.seeDrained(ctx, d) })
	c.background.run(func(ctx context.Context) { c.nudge(ctx, path, drainText) })
	return d
}

func errNotDrained(path string) error {
	return fmt.Errorf("%w: %s is not drained any more: it was started by hand, or the daemon that was asked kept nothing", api.ErrConflict, path)
}

// wait waits until its agent is stopped.
func (d *drain) wait(ctx context.Context) error {
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// seeDrained stops an agent when it has finished, or its time is over. If the
// controller ends before, the next one goes on.
func (c *Controller) seeDrained(ctx context.Context, d *drain) {
	defer d.close(d.done)
	d.err = fmt.Errorf("%s: %w", d.Path, api.ErrStopping)
	t := time.NewTimer(d.left())
	defer t.Stop()
	how := "has finished"
	select {
	case <-d.finished:
	case <-d.ended:
		how = "has ended"
	case <-t.C:
		how = "did not finish in time"
	case <-d.canceled:
	case <-ctx.Done():
		return
	}
	if !d.settle() {
		<-d.canceled
		d.err = errNotDrained(d.Path)
		return
	}
	if d.renews() {
		c.seeRenewed(ctx, d, how)
		return
	}
	var stopped []store.Op
	for {
		var err error
		if stopped, err = c.suspend(ctx, d.Path); err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, api.ErrStopping) {
			return
		}
		select { // above all because its supervisor is being restarted
		case <-time.After(drainPause):
		case <-ctx.Done():
			return
		}
	}
	c.forgetDrain(d, event.Event{
		Type: event.AgentDrained, Actor: "controller", Message: fmt.Sprintf("%s %s, and is stopped", d.Path, how),
	}.With(map[string]any{"finished": d.hasFinished()}), stopped...)
	d.err = nil
}

// seeRenewed ends a drain by starting the agent again. If that is not possible
// now, the drain is over all the same, and the patrol sees to it.
func (c *Controller) seeRenewed(ctx context.Context, d *drain, how string) {
	defer c.patrols.kick()
	c.forgetDrain(d, event.Event{
		Type: event.AgentDrainEnded, Actor: "controller", Message: fmt.Sprintf("%s %s, and is started again", d.Path, how),
	}.With(map[string]any{"finished": d.hasFinished()}))
	sup, id, err := c.locate(d.Path)
	if err != nil {
		return
	}
	info, err := sup.Child(id)
	if err != nil || info.Incarnation != d.Incarnation {
		return // it was started again already
	}
	_, err = sup.RenewChild(ctx, id)
	c.leftBehind(ctx, d.Path)
	c.untroubled("an agent that was asked to finish cannot be started again", d.Path, err)
}

// suspend stops an agent as a stop by hand does. It returns what the store has
// to know of that.
func (c *Controller) suspend(ctx context.Context, path string) ([]store.Op, error) {
	sup, id, err := c.locate(path)
	if err != nil {
		return nil, err
	}
	if err = sup.SuspendChild(ctx, id); err == nil {
		var saved supervisor.Saved
		if saved, _, err = sup.Save(id); err == nil {
			return []store.Op{newRecord(path, saved.Incarnation, true, saved).op()}, nil
		}
	}
	if errors.Is(err, supervisor.ErrNotFound) { // a temporary one, which has ended for good
		return nil, nil
	}
	return nil, notFound(path, err)
}

// forgetDrain ends a drain with an event, and with what follows from its end.
func (c *Controller) forgetDrain(d *drain, e event.Event, ops ...store.Op) {
	e.Path, e.Incarnation = d.Path, d.Incarnation
	c.mu.Lock()
	delete(c.drains, d.Path)
	c.mu.Unlock()
	defer c.patrols.kick()
	if err := c.record(e, append(ops, store.Op{Kind: store.Delete, Key: d.key()})...); err != nil {
		c.opts.Logger.Warn("the end of a drain may not survive this controller", "path", d.Path, "error", err)
	}
}

// endDrain lets an agent go on that was asked to finish, because somebody wants
// it to run. It reports whether it was: one that is being stopped already is not.
func (c *Controller) endDrain(ctx context.Context, path string) (ended bool) {
	d := c.drainOf(path)
	if d == nil {
		return false
	}
	if !d.settle() {
		d.wait(ctx)
		return false
	}
	c.forgetDrain(d, event.Event{Type: event.AgentDrainEnded, Actor: "user", Message: path + " need not finish any more"})
	close(d.canceled)
	return true
}

// newsTime is how long the news of an end is held back at most.
const newsTime = 2 * time.Second

// endedDraining notes that an incarnation which was to finish has ended. Its
// supervisor does not know yet, and would start it again: it learns of it when
// it has been asked to stop it.
func (c *Controller) endedDraining(who api.Caller) {
	d := c.drainOf(who.Path)
	if d == nil || d.Incarnation != who.Incarnation {
		return
	}
	d.close(d.ended)
	if d.renews() {
		return // to be started again is what was meant
	}
	<-c.launched
	c.wakeCrew(d.Path)
	sup, id, err := c.locate(who.Path)
	for late := time.Now().Add(newsTime); err == nil && time.Now().Before(late); time.Sleep(time.Millisecond) {
		info, err := sup.Child(id)
		if err != nil || info.State != supervisor.Running && info.State != supervisor.Starting {
			return
		}
	}
}

// Draining is part of api.Drains.
func (c *Controller) Draining(_ context.Context, who api.Caller) (*api.Drain, error) {
	c.looksForDrains(who)
	return c.drainOf(who.Path).shown(), nil
}

// AckDrain is part of api.Drains.
func (c *Controller) AckDrain(_ context.Context, who api.Caller) error {
	d := c.drainOf(who.Path)
	if d == nil || d.Incarnation != who.Incarnation {
		return fmt.Errorf("%w: nobody has asked %s to finish", api.ErrConflict, who.Path)
	}
	if d.hasFinished() {
		return nil
	}
	said := &drain{Path: d.Path, Incarnation: d.Incarnation, Reason: d.Reason, Until: d.Until, SavedAt: d.SavedAt, Finished: true, Renew: d.renews(), Pool: d.Pool}
	if err := c.record(event.Event{
		Type: event.AgentFinished, Path: who.Path, Incarnation: who.Incarnation, Actor: who.Path, Message: who.Path + " says that it has finished",
	}, said.op()); err != nil {
		c.opts.Logger.Warn("that an agent has finished may not survive this controller", "path", who.Path, "error", err)
	}
	d.close(d.finished)
	c.wakeCrew(d.Path)
	return nil
}

// recallDrains reads who was asked to finish. One that has ended meanwhile is
// stopped, as it would have been.
func (c *Controller) recallDrains(ctx context.Context, records map[string]*record) error {
	stored, _, err := c.opts.Store.Snapshot(ctx, drainPrefix)
	if err != nil {
		return fmt.Errorf("reading who was asked to finish: %w", err)
	}
	for _, s := range stored {
		d := new(drain)
		if json.Unmarshal(s.Value, d) != nil || d.Path == "" || d.key() != s.Key {
			c.opts.Logger.Warn("a drain cannot be read and is ignored", "key", s.Key)
			continue
		}
		over := event.Event{Type: event.AgentDrainEnded, Actor: "controller", Message: d.Path + ": the drain is over"}
		switch r := records[d.Path]; {
		case d.Pool && (r == nil || r.Ended || r.Incarnation != d.Incarnation):
			c.forgetDrain(d, event.Event{Type: event.AgentDrained, Actor: "controller", Message: d.Path + " has ended, and is gone"})
		case c.fleet().agents[d.Path] == nil, c.opts.Once, r == nil, r.Incarnation != d.Incarnation, r.State == supervisor.Suspended.String():
			c.forgetDrain(d, over)
		case r.Ended && d.Renew:
			c.forgetDrain(d, over)
		case r.Ended:
			r.State, r.Reason, r.SavedAt = supervisor.Suspended.String(), supervisor.ReasonTerminated.String(), time.Now()
			c.forgetDrain(d, event.Event{Type: event.AgentDrained, Actor: "controller", Message: d.Path + " has ended, and stays stopped"}, r.op())
		default:
			// A clock that was set back shows by the time of saving.
			left := d.Until.Sub(later(time.Now(), d.SavedAt))
			d.open(min(max(left, 0), api.MaxDrain))
			c.drains[d.Path] = d
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
