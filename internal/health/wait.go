package health

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/token"
)

// ErrDraining is the cause with which contexts of UntilDrained end.
var ErrDraining = errors.New("the agent is asked to finish")

// Await calls wait, which waits in the name of an incarnation for an answer or a task. It ends the
// context of wait with the incarnation. Meanwhile the incarnation need not give signs of life.
func (m *Monitor) Await(ctx context.Context, who token.Caller, wait func(context.Context) error) error {
	i := m.Incarnation(who)
	if i == nil || !i.beginAwait() {
		return token.Stale(who)
	}
	defer i.requests.Done()
	defer i.endAwait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(i.ended, func() { cancel(token.Stale(who)) })()
	err := wait(ctx)
	if i.ended.Err() != nil {
		return token.Stale(who)
	}
	return err
}

func (i *Incarnation) beginAwait() (ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return false
	}
	i.requests.Add(1)
	i.waits++
	i.updateWaiting()
	return true
}

func (i *Incarnation) endAwait() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.waits--
	i.updateWaiting()
}

// UntilDrained returns a context that ends when the incarnation is drained, now or later.
func (m *Monitor) UntilDrained(ctx context.Context, who token.Caller) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	i := m.Incarnation(who)
	if i == nil {
		cancel(token.Stale(who))
		return ctx, func() {}
	}
	i.mu.Lock()
	if i.untilDrained == nil {
		i.untilDrained = make(map[*context.CancelCauseFunc]bool)
	}
	i.untilDrained[&cancel] = true
	i.mu.Unlock()
	if m.opts.Fleet.Draining(who.Path) {
		cancel(ErrDraining)
	}
	return ctx, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.untilDrained, &cancel)
		cancel(nil)
	}
}

// Drain ends the contexts of UntilDrained of an agent that is asked to finish. It reports false if
// no incarnation of it exists.
func (m *Monitor) Drain(path string) (exists bool) {
	i := m.Latest(path)
	if i == nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for cancel := range i.untilDrained {
		(*cancel)(ErrDraining)
	}
	return true
}

// AwaitsTask reports whether an agent waits for a task.
func (m *Monitor) AwaitsTask(path string) bool {
	i := m.Latest(path)
	if i == nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.untilDrained) > 0
}

// QuestionsChanged tells that a question of an agent was asked, or is no longer open.
func (m *Monitor) QuestionsChanged(path string) {
	if i := m.Latest(path); i != nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.updateWaiting()
	}
}

// updateWaiting finds out whether the incarnation waits: a call of Await is under way, or a question
// that it has asked is open. Needs mu.
func (i *Incarnation) updateWaiting() {
	waiting := i.waits > 0 || i.m.opts.Fleet.HasQuestion(i.who)
	now := time.Now()
	if waiting || i.watch.State().Waiting {
		i.waited = now
	}
	i.watch.Wait(now, waiting)
	i.arm()
}
