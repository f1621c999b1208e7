package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// restart is what an agent has asked for. It is kept in the store until it is
// done, so that what was acknowledged happens.
type restart struct {
	Path        string `json:"path"`
	Incarnation uint64 `json:"incarnation"` // that asked
	Reason      string `json:"reason,omitempty"`

	kept chan struct{} // closed when it is known whether the store has it
	err  error         // why not
}

const (
	restartPrefix = "restarts"
	keepTime      = 5 * time.Second // for the store to take a request
	// settleTime is how long an incarnation lives at least before a restart that
	// it asks for: one that always asks at once must not spin.
	settleTime = time.Second
)

func (r *restart) key() string { return restartPrefix + "/" + store.PathKey(r.Path) }

// RequestRestart is part of api.Selves.
func (c *Controller) RequestRestart(ctx context.Context, who api.Caller, reason string) error {
	if c.triggers.Has(who.Path) {
		return fmt.Errorf("%w: a run of %s is not restarted, it ends, and its Aidefile says what follows",
			api.ErrConflict, who.Path)
	}
	if c.drains.Has(who.Path) {
		return fmt.Errorf("%w: %s is asked to finish, and is stopped then", api.ErrConflict, who.Path)
	}
	if c.health.Incarnation(who).Failed() {
		return fmt.Errorf("%w: %s has failed; what comes next is decided as after every failure", api.ErrConflict,
			who.Path)
	}
	c.mu.Lock()
	r := c.restarts[who.Path]
	before, first := r, r == nil || r.Incarnation != who.Incarnation
	if first {
		r = &restart{Path: who.Path, Incarnation: who.Incarnation, Reason: proc.OneLine(reason, api.MaxNote),
			kept: make(chan struct{})}
		c.restarts[who.Path] = r
	}
	c.mu.Unlock()
	if !first {
		select {
		case <-r.kept:
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if before != nil { // which is done, as this one lives; its record is replaced
		c.restartEnded(before, "it is done")
	}
	message := who.Path + " asks to be restarted"
	if r.Reason != "" {
		message += ": " + r.Reason
	}
	e := event.Event{Type: event.AgentRestartRequested, Path: who.Path, Incarnation: who.Incarnation, Actor: who.Path,
		Message: message}
	value, _ := json.Marshal(r) // strings and a number
	err := c.record(e.With(map[string]string{"reason": r.Reason}),
		store.Op{Kind: store.Put, Key: r.key(), Value: value})
	if err != nil {
		r.err = fmt.Errorf("%w: the restart cannot be kept: %w", api.ErrConflict, err)
		c.dropRestart(who.Path, who.Incarnation, "the store does not take it")
	} else {
		c.patrols.kick()
	}
	close(r.kept)
	return r.err
}

// record writes an event with what follows from it, and returns when the store has both.
func (c *Controller) record(e event.Event, ops ...store.Op) error {
	c.log.Append(e, ops...)
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	return c.log.Sync(ctx)
}

// restartOf is the restart that an incarnation has asked for; nil if it has not.
func (c *Controller) restartOf(who api.Caller) *restart {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.restarts[who.Path]; r != nil && r.Incarnation == who.Incarnation {
		return r
	}
	return nil
}

// dropRestart forgets the restart that an incarnation has asked for, or any of
// that agent if the number is 0.
func (c *Controller) dropRestart(path string, incarnation uint64, why string) {
	c.mu.Lock()
	r := c.restarts[path]
	if r == nil || incarnation != 0 && r.Incarnation != incarnation {
		c.mu.Unlock()
		return
	}
	delete(c.restarts, path)
	c.mu.Unlock()
	c.restartEnded(r, why, store.Op{Kind: store.Delete, Key: r.key()})
}

func (c *Controller) restartEnded(r *restart, why string, ops ...store.Op) {
	c.log.Append(event.Event{
		Type: event.AgentRestartEnded, Path: r.Path, Incarnation: r.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("the restart that %s has asked for is over: %s", r.Path, why),
	}, ops...)
}

// carryOut restarts an agent as a restart by hand does, unless the incarnation
// that asked for it is over, or somebody has decided otherwise.
func (c *Controller) carryOut(ctx context.Context, r *restart) {
	who := api.Caller{Path: r.Path, Incarnation: r.Incarnation}
	why := "it is done"
	if err := c.restartNow(ctx, who); err != nil {
		var held *supervisor.HeldError
		if errors.As(err, &held) {
			return // the patrol comes again when there is room
		}
		if ctx.Err() != nil || errors.Is(err, supervisor.ErrNoSupervisor) || errors.Is(err, supervisor.ErrStopping) {
			return // the next controller does it
		}
		why = err.Error()
	}
	c.dropRestart(r.Path, r.Incarnation, why)
}

var errNotStarted = errors.New("it could not be started; what comes next is decided as after every failure")

var errOvertaken = errors.New("it was stopped or restarted meanwhile")

func (c *Controller) restartNow(ctx context.Context, who api.Caller) error {
	if i := c.health.Incarnation(who); i != nil {
		var ended <-chan struct{} // nil before it runs
		if s := c.live(who.Path); s != nil && s.Observe().Incarnation == who.Incarnation {
			ended = s.Done()
		}
		select {
		case <-time.After(time.Until(i.Since().Add(settleTime))):
		case <-ended:
		case <-i.Ended():
		case <-ctx.Done():
			return ctx.Err()
		}
		if i.Failed() && !i.Ready() {
			return errNotStarted
		}
	}
	sup, id, err := c.locate(who.Path)
	if err != nil {
		return err
	}
	info, err := sup.Child(id)
	if err != nil {
		return err
	}
	if info.Incarnation > who.Incarnation || c.opts.Once && info.StartedAt.After(c.started) || c.restartOf(who) == nil {
		return errOvertaken
	}
	if _, err = sup.ReplaceCounted(ctx, id, supervisor.ReasonRequested); err == nil {
		c.waitDurable(ctx, who.Path, info, api.Restart) // before the request is forgotten
	}
	return err
}

// dropOvertaken forgets requests of incarnations that have ended by themselves
// and have a successor, but for those that are being carried out.
func (c *Controller) dropOvertaken(busy func(path string) bool) {
	c.mu.Lock()
	var over []*restart
	for _, r := range c.restarts {
		if s := c.agents.Session(r.Path); s != nil && s.Observe().Incarnation > r.Incarnation {
			over = append(over, r)
		}
	}
	c.mu.Unlock()
	for _, r := range over {
		if !busy(r.Path) {
			c.dropRestart(r.Path, r.Incarnation, errOvertaken.Error())
		}
	}
}

// recallRestarts reads what agents have asked for and has not been done yet. One
// that was stopped for it is not down: it is started, or was already.
func (c *Controller) recallRestarts(ctx context.Context, records map[string]*agent.Record) error {
	stored, _, err := c.opts.Store.Snapshot(ctx, restartPrefix)
	if err != nil {
		return fmt.Errorf("reading which restarts were asked for: %w", err)
	}
	for _, s := range stored {
		r := &restart{kept: make(chan struct{})}
		close(r.kept)
		if json.Unmarshal(s.Value, r) != nil || c.fleet().Agents[r.Path] == nil || r.key() != s.Key {
			c.opts.Logger.Warn("the request of a restart cannot be read and is ignored", "key", s.Key)
			continue
		}
		c.restarts[r.Path] = r
		switch known := records[r.Path]; {
		case known == nil || known.Incarnation != r.Incarnation:
			c.dropRestart(r.Path, 0, "that incarnation is over")
		case known.State == supervisor.Suspended.String():
			known.State, known.Reason = supervisor.Waiting.String(), ""
		}
	}
	return nil
}

// Hook is part of api.Selves.
func (c *Controller) Hook(ctx context.Context, who api.Caller, key string) ([]api.Notice, error) {
	var all []api.Notice
	c.health.Incarnation(who).SetSeesDrains()
	if d, ok := c.drains.Of(who.Path); ok && d.Incarnation == who.Incarnation {
		all = append(all, d.Notice())
	}
	if c.restartOf(who) != nil {
		all = append(all, api.Notice{Kind: "restart", Text: "You are about to be restarted, as you have asked."})
	}
	messages, err := c.mail.Deliver(ctx, who.Path, who.Incarnation, key)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		n := api.Notice{Kind: "mail", ID: m.ID, Text: fmt.Sprintf("From %s: %s. Run \"coppice agent "+
			"mail read %s\" to read it.", m.From, m.Subject, m.ID)}
		if m.Question != "" {
			n.Kind = "answer"
		}
		all = append(all, n)
	}
	tasks, err := c.workNotices(ctx, who)
	if err != nil {
		return nil, err
	}
	return append(all, tasks...), nil
}
