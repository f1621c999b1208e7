package health

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/token"
)

// ErrDraining is the cause with which UntilDrained cancels contexts.
var ErrDraining = errors.New("the agent is asked to finish")

// Await calls wait, which waits on behalf of an incarnation for an answer or a task. The context of
// wait ends with the incarnation. Meanwhile the incarnation need not give signs of life.
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

// UntilDrained returns a context that is canceled when the incarnation is drained, or at once if it
// is already. The caller must call the function that it returns.
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

// Drain cancels the contexts that UntilDrained returned for an agent. It reports false if the agent
// has no incarnation.
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

// QuestionsChanged must be called when an agent has asked a question, and when one is closed.
func (m *Monitor) QuestionsChanged(path string) {
	if i := m.Latest(path); i != nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.updateWaiting()
	}
}

// updateWaiting determines whether the incarnation waits: a call of Await is under way, or it has an
// open question. Needs mu.
func (i *Incarnation) updateWaiting() {
	waiting := i.waits > 0 || i.m.opts.Fleet.HasQuestion(i.who)
	now := time.Now()
	if waiting || i.watch.State().Waiting {
		i.waited = now
	}
	i.watch.Wait(now, waiting)
	i.arm()
}
