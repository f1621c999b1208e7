package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Waiters are told of tasks: each task that becomes ready wakes one of those that
// wait at its place, the one that has waited longest, which then claims as
// anybody else does. One that finds nothing keeps its turn. Nobody looks unless
// there is a task, and no more waiters look than there are tasks.

// waiter waits for a task at some places.
type waiter struct {
	who    Who
	places []place
	wake   chan struct{} // holds a token when it is to look
	woken  *waitingLine  // for a task of which it is to look; nil if it is not
}

// waitingLine is those who wait at a place, in the order in which they came.
type waitingLine struct {
	all   []*waiter
	woken int // how many of them are to look, for a task of this place
}

// maxAlarm bounds a wait for the clock, which may be set while that lasts.
const maxAlarm = time.Minute

// Await claims the first task that is ready, as Claim does, and waits until
// there is one. It ends with ErrStale when the incarnation is over, with
// store.ErrClosed when the queue is, and with the cause of ctx when that is.
func (q *Queue) Await(ctx context.Context, who Who, c Claiming) (Task, error) {
	if c.ID != "" {
		return Task{}, fmt.Errorf("%w: a task that is named is claimed without waiting", ErrInvalid)
	}
	w := &waiter{who: who, places: c.places(who), wake: make(chan struct{}, 1)}
	defer q.leave(w)
	for {
		t, err := q.claim(ctx, who, c, w)
		if !errors.Is(err, ErrNothing) {
			return t, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return Task{}, context.Cause(ctx)
		case <-q.ctx.Done():
			return Task{}, store.ErrClosed
		}
	}
}

// places are where the tasks are that can be claimed, in the order of asking.
func (c Claiming) places(who Who) []place {
	all := []place{{assignee: who.String()}}
	for _, pool := range c.Pools {
		if pool != "" && !slices.Contains(all, place{pool: pool}) {
			all = append(all, place{pool: pool})
		}
	}
	if c.Any {
		all = append(all, place{})
	}
	return all
}

// enlist lets a waiter wait, unless it does. Needs mu, as all that follows.
func (q *Queue) enlist(w *waiter) {
	for _, at := range w.places {
		l := q.waiting[at]
		if l == nil {
			l = &waitingLine{}
			q.waiting[at] = l
		}
		if !slices.Contains(l.all, w) {
			l.all = append(l.all, w)
		}
	}
	q.setAlarm()
}

// poke lets a waiter look.
func (w *waiter) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// looks notes that a waiter looks now.
func (w *waiter) looks() {
	if w.woken != nil {
		w.woken.woken--
		w.woken = nil
	}
	select {
	case <-w.wake:
	default:
	}
}

// leave ends a wait. Another waiter has what it was woken for and has not taken.
func (q *Queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.looks()
	for _, at := range w.places {
		l := q.waiting[at]
		if l == nil {
			continue
		}
		if i := slices.Index(l.all, w); i >= 0 {
			l.all = slices.Delete(l.all, i, i+1)
		}
		if len(l.all) == 0 {
			delete(q.waiting, at)
		}
		q.stir(at)
	}
}

// stir wakes as many of those who wait at a place as there are ready tasks.
func (q *Queue) stir(at place) {
	l, tasks := q.waiting[at], q.index.ready[at]
	if l == nil || tasks == nil {
		return
	}
	for _, w := range l.all {
		if l.woken >= len(tasks.entries) {
			return
		}
		if w.woken == nil {
			w.woken = l
			l.woken++
			w.poke()
		}
	}
}

// stirAll is stir for all places, once the index is another one.
func (q *Queue) stirAll() {
	for at := range q.waiting {
		q.stir(at)
	}
	q.setAlarm()
}

// recheck lets the waiters of an agent look whether their incarnation lives.
func (q *Queue) recheck(path string) {
	for _, w := range q.waiting[place{assignee: path}].waiters() {
		if w.who.Path == path {
			w.poke()
		}
	}
}

func (l *waitingLine) waiters() []*waiter {
	if l == nil {
		return nil
	}
	return l.all
}

// setAlarm sees to it that time goes on for the index while somebody waits.
func (q *Queue) setAlarm() {
	if len(q.waiting) == 0 || len(q.index.timed.entries) == 0 {
		return
	}
	at := q.index.timed.entries[0].NotBefore
	if q.alarm != nil && q.alarmAt.Equal(at) {
		return
	}
	if q.alarm != nil {
		q.alarm.Stop()
	}
	q.alarmAt = at
	q.alarm = time.AfterFunc(max(0, min(time.Until(at), maxAlarm)), q.ring)
}

// ring lets the time of the index go on.
func (q *Queue) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.alarm = nil; !q.closed {
		q.index.advance(time.Now())
		q.setAlarm()
	}
}
