// Package drain asks agents to finish their work before they are stopped or restarted.
//
// A drain belongs to one incarnation of an agent. It ends when the agent acknowledges that it has
// finished, when the incarnation exits, at the deadline, or when the drain is canceled. The Manager
// then stops or restarts the agent, except for a drain that the pool of an instance has begun: there
// the pool decides. The store keeps drains until they end, so that the next daemon continues them.
package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/notice"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/token"
)

// record is the stored form of a drain.
type record struct {
	Path        string    `json:"path"`
	Incarnation uint64    `json:"incarnation"`
	Reason      string    `json:"reason,omitempty"`
	Until       time.Time `json:"until"`
	SavedAt     time.Time `json:"saved_at"` // by the same clock as Until
	Finished    bool      `json:"finished,omitempty"`
	Renew       bool      `json:"renew,omitempty"`   // restart the agent afterwards
	Counted     bool      `json:"counted,omitempty"` // the restart counts for its limit; see reconcile.Action
	Pool        bool      `json:"pool,omitempty"`    // begun by the pool of the instance
}

// prefix is the prefix of the store keys of drains.
const prefix = "drains"

func (r record) key() string { return prefix + "/" + store.PathKey(r.Path) }

func (r record) op() store.Op {
	value, _ := json.Marshal(r) // strings, numbers and times of this century
	return store.Op{Kind: store.Put, Key: r.key(), Value: value}
}

// drain is a drain in progress.
type drain struct {
	record             // as it was begun; see renews
	deadline time.Time // on the monotonic clock

	acknowledged chan struct{} // closed when the agent has acknowledged that it has finished
	exited       chan struct{} // closed when the incarnation has exited
	canceled     chan struct{} // closed when the drain is canceled
	done         chan struct{} // closed when the agent is stopped, or the drain is canceled
	err          error         // why the agent is not stopped; valid after done

	mu       sync.Mutex
	stopOnly bool   // a person has asked for a stop since: the agent is not started again
	decided  bool   // the agent is being stopped, or the drain is canceled
	why      string // the reason of its pool to stop it
}

// newDrain returns a drain whose deadline is after the time that is left.
func newDrain(r record, left time.Duration) *drain {
	d := &drain{
		record: r, deadline: time.Now().Add(left),
		acknowledged: make(chan struct{}), exited: make(chan struct{}),
		canceled: make(chan struct{}), done: make(chan struct{}),
	}
	if r.Finished {
		close(d.acknowledged)
	}
	return d
}

// left returns the time until the deadline.
func (d *drain) left() time.Duration { return max(0, time.Until(d.deadline)) }

// close closes one of the channels, unless it is closed already.
func (d *drain) close(c chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !isClosed(c) {
		close(c)
	}
}

// decide reports whether the caller is the first to decide how the drain ends, and records why.
func (d *drain) decide(why string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.decided {
		return false
	}
	d.decided, d.why = true, why
	return true
}

// decision returns the reason that decide was given.
func (d *drain) decision() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.why
}

// current returns the record of the drain as it is now.
func (d *drain) current() record {
	r := d.record
	r.Renew = d.renews()
	return r
}

// renews reports whether the agent is restarted afterwards.
func (d *drain) renews() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Renew && !d.stopOnly
}

// stopAfterwards makes the drain end with a stop instead of a restart.
func (d *drain) stopAfterwards() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopOnly = true
}

// wait waits until the agent is stopped.
func (d *drain) wait(ctx context.Context) error {
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *drain) state() State {
	return State{
		Incarnation: d.Incarnation, Reason: d.Reason, Deadline: d.deadline,
		Finished: isClosed(d.acknowledged), Exited: isClosed(d.exited), Renew: d.renews(), Pool: d.Pool,
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// State describes a drain at one moment.
type State struct {
	Incarnation uint64 // the drained incarnation
	Reason      string
	Deadline    time.Time // when it is stopped in any case
	Finished    bool      // it has acknowledged that it has finished
	Exited      bool      // it has exited
	Renew       bool      // the agent is restarted afterwards
	Pool        bool      // its pool has begun the drain, and ends it
}

// API returns the drain as the API shows it.
func (s State) API() *Info {
	return &Info{Reason: s.Reason, Left: s.left().Seconds(), Finished: s.Finished}
}

// Notices is a notice.Source that tells an agent of its drain.
func (m *Manager) Notices(_ context.Context, who token.Caller, _ string) ([]notice.Notice, error) {
	m.Agents.ChecksDrains(who)
	if s, ok := m.Of(who.Path); ok && s.Incarnation == who.Incarnation {
		return []notice.Notice{s.notice()}, nil
	}
	return nil, nil
}

// notice returns the notice for the drained agent.
func (s State) notice() notice.Notice {
	text := "You are asked to finish what you do"
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	return notice.Notice{Kind: "drain", Text: fmt.Sprintf(
		"%s. Run \"coppice agent drain-ack\" when you have; you are stopped then, and in %s in any case.",
		text, liveness.Brief(s.left().Round(time.Second)))}
}

func (s State) left() time.Duration { return max(0, time.Until(s.Deadline)) }
