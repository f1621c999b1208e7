package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Claiming says which task somebody wants to do.
type Claiming struct {
	// ID is the task; if it is empty, it is the first that is ready: of those
	// assigned to who asks, then of these pools, one after the other, then of
	// those that are nobody's if Any.
	ID    string   `json:"id,omitempty"`
	Pools []string `json:"pools,omitempty"`
	Any   bool     `json:"any,omitempty"`
	// Key is of the request: the same one again gets the same task.
	Key string `json:"key,omitempty"`
}

// maxPools bounds the pools that are asked for at once.
const maxPools = 100

// Claim binds a task to who asks: to one incarnation of an agent, until it
// closes or releases the task, or is over itself. The error is ErrNothing where
// nothing is ready. One may have claimed several tasks.
func (q *Queue) Claim(ctx context.Context, who Who, c Claiming) (t Task, err error) {
	return q.claim(ctx, who, c, nil)
}

// claim is Claim; w, if there is one, waits where nothing is ready.
func (q *Queue) claim(ctx context.Context, who Who, c Claiming, w *waiter) (t Task, err error) {
	if err := checkText("key", c.Key, MaxName, false); err != nil {
		return t, err
	}
	if len(c.Pools) > maxPools {
		return t, fmt.Errorf("%w: %d pools are asked for, at most %d are allowed", ErrInvalid, len(c.Pools), maxPools)
	}
	err = q.update(ctx, func(s *step) error {
		if w != nil {
			w.looks()
		}
		if err := q.alive(who); err != nil {
			return err
		}
		r, err := q.wanted(who, c)
		if errors.Is(err, ErrNothing) && w != nil {
			q.enlist(w)
		}
		if err != nil {
			return err
		}
		if holds(who, r) {
			t = q.index.shown(r)
			return nil
		}
		after := *r
		after.Status, after.NotBefore = InProgress, time.Time{}
		after.Claim = &Holder{By: who.String(), Incarnation: who.Incarnation, Life: q.lives[who.Path].ID, At: now(),
			Key: c.Key}
		after.Claims++
		if err := s.save(&after, who, Claimed, ""); err != nil {
			return err
		}
		t = q.index.shown(&after)
		return nil
	})
	return t, err
}

// holds reports whether somebody has claimed a task.
func holds(who Who, r *record) bool {
	c := r.Claim
	return c != nil && c.By == who.String() && c.Incarnation == who.Incarnation
}

// wanted is the task that somebody can claim, or has claimed already.
func (q *Queue) wanted(who Who, c Claiming) (*record, error) {
	held := q.index.claimed[who.String()]
	if c.Key != "" {
		for id := range held {
			if r := q.index.get(id); holds(who, r) && r.Claim.Key == c.Key {
				return r, nil
			}
		}
	}
	if c.ID != "" {
		r, err := q.find(c.ID)
		if err != nil || holds(who, r) {
			return r, err
		}
		if err := q.claimable(who, r); err != nil {
			return nil, err
		}
		return r, q.roomFor(who, held)
	}
	for _, at := range c.places(who) {
		if r := q.index.first(at); r != nil {
			return r, q.roomFor(who, held)
		}
	}
	return nil, ErrNothing
}

// roomFor refuses an agent that takes and takes.
func (q *Queue) roomFor(who Who, held map[string]bool) error {
	if !who.Person() && len(held) >= MaxHeld {
		return fmt.Errorf("%w: %s has claimed %d tasks, and can claim more when it has closed or released some",
			ErrFull, who, len(held))
	}
	return nil
}

// claimable says why a task cannot be claimed, nil if it can.
func (q *Queue) claimable(who Who, r *record) error {
	switch waits := q.index.waitsFor(r); {
	case r.closed():
		return closedAlready(r, "coppice task reopen "+r.ID)
	case r.Claim != nil:
		return fmt.Errorf("%w: %s is in progress at %s since %s", ErrConflict, r.ID, r.Claim.name(),
			r.Claim.At.Format(time.RFC3339))
	case r.Status == InProgress:
		return fmt.Errorf("%w: %s is in progress, as it was imported; it can be had after: coppice task retry %[2]s",
			ErrConflict, r.ID)
	case r.Assignee != "" && r.Assignee != who.String() && !who.Person():
		return fmt.Errorf("%w: %s is assigned to %s", ErrConflict, r.ID, r.Assignee)
	case len(waits) > 0:
		return fmt.Errorf("%w: %s waits for %s", ErrConflict, r.ID, strings.Join(waits, ", "))
	case r.effective(q.index.now) == Deferred && !r.NotBefore.IsZero():
		return fmt.Errorf("%w: %s is put off until %s", ErrConflict, r.ID, r.NotBefore.Format(time.RFC3339))
	case r.Status == Parked:
		return parkedAlready(r)
	case r.Status != Open && r.effective(q.index.now) != Open:
		return fmt.Errorf("%w: %s is %s; open it with: coppice task edit %[2]s --status open", ErrConflict, r.ID,
			r.Status)
	}
	return nil
}

// Release gives a task that was claimed back: it is open again.
func (q *Queue) Release(ctx context.Context, who Who, id, reason string) (Task, error) {
	return q.change(ctx, who, id, func(s *step, r *record) error {
		switch {
		case r.closed():
			return closedAlready(r, "coppice task reopen "+r.ID)
		case r.Status == Open && r.Claim == nil:
			return errSame
		case r.Status == Parked:
			return parkedAlready(r)
		case r.Status != InProgress:
			return fmt.Errorf("%w: %s is %s, and not claimed", ErrConflict, r.ID, r.Status)
		}
		if err := mayChange(who, r); err != nil {
			return err
		}
		return s.giveBack(r, who, Released, reason)
	})
}

// Begin says that an incarnation lives: it can claim from now on, and no other
// one of that agent can do anything. Call GiveBack for what those have claimed.
func (q *Queue) Begin(path string, life Life) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lives[path] = life
	q.recheck(path)
}

// End says that an incarnation has ended: it can no longer do anything. failure
// says how, if the agent has failed, and is empty if it was asked to end or
// nothing is known: only failures count against the tasks that it had claimed.
// Call GiveBack for those.
func (q *Queue) End(path string, incarnation uint64, failure string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if life := q.lives[path]; life.Incarnation == incarnation {
		q.ends[path] = end{life, failure}
		delete(q.lives, path)
		q.recheck(path)
	}
}

// Sweep gives back what was claimed by incarnations that do not live, but those
// of agents of which it is not known, which keep names.
func (q *Queue) Sweep(ctx context.Context, keep func(path string) bool) error {
	var holders []string
	err := q.view(ctx, func(x *index) {
		holders = holders[:0]
		for by, ids := range x.claimed {
			if slices.ContainsFunc(slices.Collect(maps.Keys(ids)),
				func(id string) bool { return q.orphan(x.get(id)) }) {
				holders = append(holders, by)
			}
		}
	})
	if err != nil {
		return err
	}
	var errs []error
	slices.Sort(holders)
	for _, path := range holders {
		if !keep(path) {
			errs = append(errs, q.GiveBack(ctx, path))
		}
	}
	return errors.Join(errs...)
}

// orphan reports whether a task was claimed by an incarnation that does not live.
func (q *Queue) orphan(r *record) bool {
	if r.Claim == nil || r.Claim.Incarnation == 0 {
		return false
	}
	life := q.lives[r.Claim.By]
	return life.Incarnation != r.Claim.Incarnation || life.ID != r.Claim.Life
}

// GiveBack makes open again what incarnations of an agent have claimed that do
// not live. It costs nothing if there is nothing.
func (q *Queue) GiveBack(ctx context.Context, path string) error {
	const some = stepOps / 4
	left := func() (left []*record) {
		for _, id := range slices.Sorted(maps.Keys(q.index.claimed[path])) {
			if r := q.index.get(id); q.orphan(r) {
				left = append(left, r)
			}
		}
		return left
	}
	for {
		if err := q.lock(ctx); err != nil {
			return err
		}
		n := len(left())
		q.mu.Unlock()
		if n == 0 {
			return nil
		}
		err := q.update(ctx, func(s *step) error {
			all := left()
			for _, r := range all[:min(len(all), some)] {
				after := *r
				if err := s.orphaned(&after); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("giving back what %s had claimed: %w", path, err)
		}
	}
}

// Ending is how a task is closed.
type Ending struct {
	Outcome Outcome `json:"outcome,omitempty"` // Completed if empty
	Reason  string  `json:"reason,omitempty"`
	Force   bool    `json:"force,omitempty"` // even if it has children that are not closed
}

// Finish closes a task, by whom it was claimed, by a person, or by an agent if
// nobody has claimed it. To close it once more in the same way changes nothing.
func (q *Queue) Finish(ctx context.Context, who Who, id string, e Ending) (Task, error) {
	e.Outcome = cmp.Or(e.Outcome, Completed)
	e.Reason = strings.TrimSpace(e.Reason)
	return q.change(ctx, who, id, func(s *step, r *record) error {
		if r.closed() {
			if r.ClosedBy == who.String() && cmp.Or(r.Outcome, Completed) == e.Outcome && r.Reason == e.Reason {
				return errSame
			}
			return closedAlready(r, "coppice task reopen "+r.ID)
		}
		if err := mayChange(who, r); err != nil {
			return err
		}
		if n := q.index.open[r.ID]; n > 0 && !e.Force {
			return fmt.Errorf("%w: %s has %d children that are not closed: %s; close them first, or "+
				"only the parent with --force", ErrConflict, r.ID, n, strings.Join(q.openParts(r), ", "))
		}
		r.Status, r.Claim, r.NotBefore = Closed, nil, time.Time{}
		r.Outcome, r.Reason, r.ClosedBy, r.ClosedAt = e.Outcome, e.Reason, who.String(), now()
		return s.save(r, who, Ended, e.Reason)
	})
}

// openParts are some children that are not closed.
func (q *Queue) openParts(r *record) (all []string) {
	for _, id := range slices.Sorted(maps.Keys(q.index.parts[r.ID])) {
		if q.index.isOpen(id) && len(all) < maxShown {
			all = append(all, id)
		}
	}
	return all
}

// Reopen makes a closed task open again.
func (q *Queue) Reopen(ctx context.Context, who Who, id, reason string) (Task, error) {
	return q.change(ctx, who, id, func(s *step, r *record) error {
		if !r.closed() {
			switch r.Status {
			case Open:
				return errSame
			case Parked:
				return parkedAlready(r)
			}
			return fmt.Errorf("%w: %s is %s, not closed", ErrConflict, r.ID, r.Status)
		}
		return s.reopen(r, who, reason)
	})
}

// Retry lets a task be done now, whatever has held it: closed, blocked, put off,
// or in progress at somebody, who loses it; a person can do so with a parked
// one, too. It still waits for other tasks.
func (q *Queue) Retry(ctx context.Context, who Who, id, reason string) (Task, error) {
	return q.change(ctx, who, id, func(s *step, r *record) error {
		if r.Status == Open && r.NotBefore.IsZero() {
			return errSame
		}
		switch err := mayChange(who, r); {
		case err != nil:
			return err
		case r.Status == Parked && !who.Person():
			return parkedAlready(r)
		case r.Claim != nil && !who.Person():
			return s.giveBack(r, who, Reopened, reason)
		}
		return s.reopen(r, who, reason)
	})
}

func (s *step) reopen(r *record, who Who, reason string) error {
	r.Status, r.Claim, r.NotBefore = Open, nil, time.Time{}
	r.Outcome, r.ClosedBy, r.ClosedAt, r.Reason = "", "", time.Time{}, strings.TrimSpace(reason)
	r.forgetFailures(who)
	return s.save(r, who, Reopened, r.Reason)
}
