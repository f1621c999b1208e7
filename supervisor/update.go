package supervisor

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Update changes the flags and the child specifications of a live supervisor, and
// waits until that is done. The end of ctx ends the wait, not the change. Changes
// happen one after the other, in the order of the calls.
//
// No running child is restarted. Its new specification governs it from now on, and
// applies in full at its next start. A running nested supervisor whose Spec has
// changed is updated, too. Children that a changed limit no longer holds are
// released. New children are listed, not started (EnsureChild and RestartChild do
// that). Missing children stay, and come first in the order. Temporary children
// that have ended stay unlisted. After an error nothing has changed. A pool stays
// a pool. Name, StartFailure and OnEvent are not changed. While a group is being
// restarted, the change waits for the end of that. Errors: *SpecError, ErrStopping,
// ErrNoSupervisor, the cause of the end of ctx. (OTP code_change.)
func (s *Supervisor) Update(ctx context.Context, spec Spec) error {
	u := &updating{done: make(chan struct{})}
	u.put(s, spec, true)
	select {
	case <-u.done:
		return u.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// updating is a call of Update, which is passed on to nested supervisors.
type updating struct {
	left atomic.Int64 // supervisors that have yet to apply it
	err  error        // of the supervisor that was called
	done chan struct{}
}

// put sends the update to a supervisor.
func (u *updating) put(s *Supervisor, spec Spec, called bool) {
	u.left.Add(1)
	if m := (&updateMessage{u, spec, called}); !s.box.put(m) {
		m.end(ErrNoSupervisor)
	}
}

// end notes that a supervisor has applied the update, or has ended.
func (m *updateMessage) end(err error) {
	if m.called {
		m.u.err = err
	}
	if m.u.left.Add(-1) == 0 {
		close(m.u.done)
	}
}

// take applies the update now, or when the operation in progress is over.
func (m *updateMessage) take(s *Supervisor) {
	change := func() { m.end(m.apply(s)) }
	if s.core.op == opGroup || s.core.op == opInit {
		s.core.later = append(s.core.later, change)
		return
	}
	change()
}

func (m *updateMessage) apply(s *Supervisor) error {
	spec := m.spec
	if s.core.op == opDown {
		return ErrStopping
	}
	if err := spec.validate(s.core.path, s.depth); err != nil {
		return err
	}
	if (spec.Strategy == SimpleOneForOne) != (s.core.strategy == SimpleOneForOne) {
		return &SpecError{Path: s.core.path, Field: "Strategy",
			Problem: fmt.Sprintf("cannot change from %v to %v while running", s.core.strategy, spec.Strategy)}
	}
	for _, c := range s.core.update(spec) {
		if c.inc == nil || c.inc.more == nil {
			continue // its next start uses the new Spec
		}
		if sub, ok := c.inc.more.proc.(*Supervisor); ok {
			m.u.put(sub, *c.work.(*Spec), false)
		}
	}
	return nil
}

// update gives a live supervisor new flags and specifications. It returns the
// children that are nested supervisors with another Spec than before.
// New children are not started, and those no longer listed stay, before the
// others. (OTP code_change.)
func (k *core) update(spec Spec) (nested []*child) {
	if k.limit != spec.limit() {
		k.limit = spec.limit()
		k.clearWindows()
	}
	k.strategy, k.auto, k.together = spec.Strategy, spec.AutoShutdown, spec.StopTogether
	redefine := func(c *child, cs ChildSpec) {
		if was, ok := c.work.(*Spec); ok && cs.Supervisor != nil && was != cs.Supervisor {
			nested = append(nested, c)
		}
		k.redefine(c, cs)
	}
	if k.strategy == SimpleOneForOne {
		k.define(k.template, spec.Children[0])
		for c := k.head; c != nil; c = c.next {
			redefine(c, spec.Children[0])
		}
		return nested
	}
	over := k.over
	k.over = nil
	for _, cs := range spec.Children {
		switch c := k.byID[cs.ID]; {
		case c != nil:
			c.listed = true
			redefine(c, cs)
			k.moveLast(c)
		case over[cs.ID]:
			k.isOver(cs.ID)
		default:
			k.list(k.newChild(cs), cs, Stopped)
		}
	}
	k.reconsider()
	return nested
}

// isOver notes that a temporary child of the Spec has ended.
func (k *core) isOver(id string) {
	if k.over == nil {
		k.over = make(map[string]bool)
	}
	k.over[id] = true
}
