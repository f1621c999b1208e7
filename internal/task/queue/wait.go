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

// Waiters are told of tasks: each task that becomes ready wakes one of those that
// wait at its place, the one that has waited longest, which then claims as
// any other caller does. One that finds nothing keeps its turn. No waiter looks unless
// there is a task, and no more waiters look than there are tasks.

// waiter waits for a task at some places.
type waiter struct {
	actor  task.Actor
	places []task.Place
	wake   chan struct{} // holds a token when it is to look
	woken  *waitQueue    // for a task of which it is to look; nil if it is not
}

// waitQueue is those who wait at a place, in the order in which they came.
type waitQueue struct {
	all   []*waiter
	woken int // how many of them are to look, for a task of this place
}

// waiters are all that wait, by the places of the tasks that they wait for. The lock of
// the queue guards them.
type waiters map[task.Place]*waitQueue

// maxTimer bounds a wait for the clock, which may be set while that lasts.
const maxTimer = time.Minute

// Await claims the first task that is ready, as Claim does, and waits until
// there is one. It ends with ErrStale when the incarnation is over, with
// store.ErrClosed when the queue is, and with the cause of ctx when that is.
func (q *Queue) Await(ctx context.Context, actor task.Actor, c task.Claiming) (task.Task, error) {
	if c.ID != "" {
		return task.Task{}, fmt.Errorf("%w: a task that is named is claimed without waiting", task.ErrInvalid)
	}
	w := &waiter{actor: actor, places: c.Places(actor), wake: make(chan struct{}, 1)}
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.waiters.leave(w, q.state.ReadyAt)
	}()
	for {
		t, err := q.change(ctx, func(s *task.Step) (task.Task, error) {
			w.clearWakeup()
			t, err := s.Claim(actor, c)
			if errors.Is(err, task.ErrNothing) {
				q.waiters.add(w)
				q.setTimer()
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
		case <-q.ctx.Done():
			return task.Task{}, store.ErrClosed
		}
	}
}

// add lets a waiter wait, unless it does.
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

// leave ends a wait. Another waiter gets what it was woken for and has not taken.
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

// wake wakes as many of those who wait at a place as there are ready tasks.
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

// recheck lets the waiters of an agent look whether their incarnation lives.
func (all waiters) recheck(path string) {
	if l := all[task.AssignedTo(path)]; l != nil {
		for _, w := range l.all {
			if w.actor.Path == path {
				signal(w.wake)
			}
		}
	}
}

// clearWakeup notes that a waiter looks now.
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

// setTimer makes the queue advance its time while somebody waits. Needs mu.
func (q *Queue) setTimer() {
	at, there := q.state.NextTime()
	if len(q.waiters) == 0 || !there || q.timer != nil && q.timerAt.Equal(at) {
		return
	}
	if q.timer != nil {
		q.timer.Stop()
	}
	q.timerAt = at
	q.timer = time.AfterFunc(max(0, min(time.Until(at), maxTimer)), q.onTimer)
}

// onTimer advances the time.
func (q *Queue) onTimer() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timer = nil; !q.closed {
		q.state.Advance(time.Now())
		q.setTimer()
	}
}
