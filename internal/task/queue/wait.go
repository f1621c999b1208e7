package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
)

// A task that becomes ready wakes the waiter that has waited longest at its place. The waiter
// then claims a task as any other caller does, and keeps its position if it finds none. Never are
// more waiters awake than there are ready tasks.

// waiter waits for a task at several places.
type waiter struct {
	actor  task.Actor
	places []task.Place
	wake   chan struct{} // holds a token when it should look for a task
	woken  *waitQueue    // the queue that has woken it; nil if none
}

// waitQueue holds the waiters at a place, in the order of their arrival.
type waitQueue struct {
	all   []*waiter
	woken int // number of waiters woken for this place
}

// waiters holds the wait queues by place, under the lock of the engine.
type waiters map[task.Place]*waitQueue

// maxTimer bounds a timer, since the wall clock may be set while it runs.
const maxTimer = time.Minute

// Await claims the first ready task, as Claim does, and waits until there is one. It fails with
// ErrStale when the incarnation ends, with store.ErrClosed when the queue is closed, and with the
// cause of ctx.
func (q *Queue) Await(ctx context.Context, actor task.Actor, c task.Claiming) (task.Task, error) {
	if c.ID != "" {
		return task.Task{}, fmt.Errorf("%w: a task that is named is claimed without waiting", task.ErrInvalid)
	}
	w := &waiter{actor: actor, places: c.Places(actor), wake: make(chan struct{}, 1)}
	defer q.engine.leave(w)
	for {
		t, err := q.Change(ctx, func(s *task.Step) (task.Task, error) {
			w.clearWakeup()
			t, err := s.Claim(actor, c)
			if errors.Is(err, task.ErrNothing) {
				q.engine.enter(w)
			}
			return t, err
		})
		if !errors.Is(err, task.ErrNothing) {
			return t, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return task.Task{}, context.Cause(ctx)
		case <-q.engine.ctx.Done():
			return task.Task{}, store.ErrClosed
		}
	}
}

// add adds a waiter to the queues of its places.
func (all waiters) add(w *waiter) {
	for _, at := range w.places {
		l := all[at]
		if l == nil {
			l = &waitQueue{}
			all[at] = l
		}
		if !slices.Contains(l.all, w) {
			l.all = append(l.all, w)
		}
	}
}

// leave removes a waiter. If it was woken and has claimed nothing, another one is woken.
func (all waiters) leave(w *waiter, ready func(task.Place) int) {
	w.clearWakeup()
	for _, at := range w.places {
		l := all[at]
		if l == nil {
			continue
		}
		if i := slices.Index(l.all, w); i >= 0 {
			l.all = slices.Delete(l.all, i, i+1)
		}
		if len(l.all) == 0 {
			delete(all, at)
		}
		all.wake(at, ready(at))
	}
}

// wake wakes as many waiters at a place as there are ready tasks.
func (all waiters) wake(at task.Place, ready int) {
	l := all[at]
	if l == nil {
		return
	}
	for _, w := range l.all {
		if l.woken >= ready {
			return
		}
		if w.woken == nil {
			w.woken = l
			l.woken++
			signal(w.wake)
		}
	}
}

// recheck wakes the waiters of an agent, so they notice if their incarnation has ended.
func (all waiters) recheck(path string) {
	if l := all[task.AssignedTo(path)]; l != nil {
		for _, w := range l.all {
			if w.actor.Path == path {
				signal(w.wake)
			}
		}
	}
}

// clearWakeup marks a waiter as no longer woken. It is called before the waiter looks for tasks.
func (w *waiter) clearWakeup() {
	if w.woken != nil {
		w.woken.woken--
		w.woken = nil
	}
	select {
	case <-w.wake:
	default:
	}
}

// enter adds a waiter. The caller holds mu.
func (e *engine) enter(w *waiter) {
	e.waiters.add(w)
	e.setTimer()
}

// leave removes a waiter.
func (e *engine) leave(w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters.leave(w, e.state.ReadyAt)
}

// recheck lets the waiters of an agent see whether their incarnation has ended.
func (e *engine) recheck(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters.recheck(path)
}

// setTimer sets a timer for the next deferred task if there are waiters. The caller holds mu.
func (e *engine) setTimer() {
	at, there := e.state.NextTime()
	if len(e.waiters) == 0 || !there || e.timer != nil && e.timerAt.Equal(at) {
		return
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	e.timerAt = at
	e.timer = time.AfterFunc(max(0, min(time.Until(at), maxTimer)), e.onTimer)
}

// onTimer advances the time.
func (e *engine) onTimer() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer = nil; !e.closed {
		e.state.Advance(time.Now())
		e.setTimer()
	}
}
