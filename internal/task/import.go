package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// ImportReport is what became of the beads of an import.
type ImportReport struct {
	_ struct{} `open:"true" doc:"What became of beads."`

	Created   int `json:"created" minimum:"0" doc:"New tasks."`
	Updated   int `json:"updated" minimum:"0" doc:"Tasks that were older than the bead."`
	Unchanged int `json:"unchanged" minimum:"0" doc:"Tasks that were not."`
}

// fate is what becomes of a bead.
type fate int

const (
	unchanged fate = iota
	created
	updated
)

// Import makes tasks of beads, with their ids. A task that is there already is
// replaced only by what is newer. Those that are waited for have to come before
// those that wait for them, as in Plan.Order: each bead becomes one step, and
// what has been written by an import that is cut off is sound. What fails is
// named by its id, and what comes after it is not done.
func (q *Queue) Import(ctx context.Context, who Who, beads []*Bead) (report ImportReport, err error) {
	select { // what is written ahead is that of one import
	case q.importing <- struct{}{}:
		defer func() { <-q.importing }()
	case <-ctx.Done():
		return report, context.Cause(ctx)
	}
	ahead, err := q.ahead(ctx, beads)
	if err != nil {
		return report, err
	}
	fates := make([]fate, len(beads))
	done := 0 // beads whose fate is known
	for done < len(beads) && err == nil {
		var steps []*step
		for i := done; i < len(beads) && err == nil; i++ {
			var s *step
			var f fate
			if s, f, err = q.bring(ctx, beads[i], ahead[beads[i].ID()]); err == nil {
				fates[i] = f
				steps = append(steps, s)
			}
		}
		for _, s := range steps {
			e := s.wait(ctx)
			if errors.Is(e, errAgain) {
				err = nil // what comes after it was decided on what is not so
				break
			}
			if e != nil {
				err = e
				break
			}
			done++
		}
		if err != nil && done < len(beads) {
			err = fmt.Errorf("%s: %w", beads[done].ID(), err)
		}
	}
	for _, f := range fates[:done] {
		switch f {
		case created:
			report.Created++
		case updated:
			report.Updated++
		default:
			report.Unchanged++
		}
	}
	if n := report.Created + report.Updated; n > 0 {
		told := q.update(ctx, func(s *step) error {
			s.also(q.o.Also(Event{Kind: Imported, By: who, Of: n})...)
			return nil
		})
		if err == nil {
			err = told
		}
	}
	return report, err
}

// ahead writes what is kept of beads whose tasks are not there yet, and returns
// their ids. Nobody looks at it before those are, so that it needs no order, and many
// writes share a commit.
func (q *Queue) ahead(ctx context.Context, beads []*Bead) (written map[string]bool, err error) {
	var fresh []*Bead
	err = q.view(ctx, func(x *index) {
		written, fresh = make(map[string]bool, len(beads)), fresh[:0]
		for _, b := range beads {
			if x.get(b.ID()) == nil && !written[b.ID()] {
				written[b.ID()] = true
				fresh = append(fresh, b)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var writes sync.WaitGroup
	var failed atomic.Pointer[error]
	var ops []store.Op
	bytes := 0
	flush := func() {
		some := ops
		ops, bytes = nil, 0
		writes.Go(func() {
			if err := q.applyFreely(ctx, some); err != nil {
				failed.Store(&err)
			}
		})
	}
	for _, b := range fresh {
		op := q.brought(b)
		n := len(op.Key) + len(op.Value)
		if len(ops) == writeOps || len(ops) > 0 && bytes+n > writeBytes {
			flush()
		}
		ops, bytes = append(ops, op), bytes+n
	}
	if len(ops) > 0 {
		flush()
	}
	if writes.Wait(); failed.Load() != nil {
		return nil, *failed.Load()
	}
	return written, nil
}

// applyFreely writes what nobody else writes, so that it can be written again.
func (q *Queue) applyFreely(ctx context.Context, ops []store.Op) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		_, err := q.o.Store.Apply(ctx, store.Fence{}, nil, ops)
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrConflict) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// bring makes a task of a bead, in a step that may not be durable yet.
func (q *Queue) bring(ctx context.Context, b *Bead, ahead bool) (*step, fate, error) {
	for {
		var before *record
		if err := q.lock(ctx); err != nil {
			return nil, 0, err
		}
		before = q.index.get(b.task.ID)
		q.mu.Unlock()
		comments := b.comments
		if before != nil && newer(b, before) {
			var err error
			if comments, err = q.news(ctx, before, b.comments); err != nil {
				return nil, 0, err
			}
		}
		s, f, err := q.bringOn(ctx, b, before, comments, ahead)
		if err == nil || !errors.Is(err, errAgain) {
			return s, f, err
		}
	}
}

func newer(b *Bead, r *record) bool { return b.task.UpdatedAt.After(r.UpdatedAt) }

// news are comments that a task has not.
func (q *Queue) news(ctx context.Context, r *record, comments []said) ([]said, error) {
	if r.Comments == 0 || len(comments) == 0 {
		return comments, nil
	}
	there, err := q.comments(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(comments), func(c said) bool {
		return slices.ContainsFunc(there, func(old said) bool {
			return c.By == old.By && c.Text == old.Text &&
				c.At.Equal(old.At)
		})
	}), nil
}

// bringOn is bring, as long as the task is as it was; errAgain if it is not.
func (q *Queue) bringOn(ctx context.Context, b *Bead, before *record, comments []said, ahead bool) (*step, fate,
	error) {
	if before != nil && !newer(b, before) {
		return q.bringNothing(ctx)
	}
	r := &record{Task: b.task, Brought: true}
	if before != nil {
		r.keep(before)
	}
	if r.CreatedAt.IsZero() {
		r.CreatedAt = now()
	}
	if r.UpdatedAt.IsZero() {
		r.UpdatedAt = r.CreatedAt
	}
	if n := r.Comments + len(comments); n > MaxComments {
		return nil, 0, fmt.Errorf("%w: it would have %d comments, at most %d are kept", ErrFull, n, MaxComments)
	}
	// What does not fit into one step is written before it. Nobody sees it
	// until the task says that there are so many comments.
	const some = stepOps - 10
	for {
		last := len(comments) <= some && size(comments) <= store.MaxValue/2
		n := len(comments)
		if !last {
			for n = 1; n < min(some, len(comments)) && size(comments[:n+1]) <= store.MaxValue/2; n++ {
			}
		}
		s, _, err := q.begin(ctx, func(s *step) error {
			if q.index.get(b.task.ID) != before {
				return errAgain
			}
			for _, c := range comments[:n] {
				s.also(q.comment(r, c))
			}
			if !last {
				return nil
			}
			return q.settle(s, r, b, before, ahead)
		})
		if err != nil {
			return nil, 0, err
		}
		if last {
			f := created
			if before != nil {
				f = updated
			}
			return s, f, nil
		}
		if err := s.wait(ctx); err != nil {
			return nil, 0, err
		}
		comments = comments[n:]
	}
}

// bringNothing is for a bead that changes nothing: it holds with what was decided before it.
func (q *Queue) bringNothing(ctx context.Context) (*step, fate, error) {
	s, _, err := q.begin(ctx, func(*step) error { return nil })
	if s == nil {
		s = &step{done: make(chan struct{})}
		close(s.done)
	}
	return s, unchanged, err
}

func size(comments []said) (n int) {
	for _, c := range comments {
		n += len(c.Text) + len(c.Brought) + 1<<10
	}
	return n
}

// keep keeps what is a task's own when a newer bead comes.
func (r *record) keep(before *record) {
	r.Number, r.Key, r.Said, r.Claims, r.Comments = before.Number, before.Key, before.Said, before.Claims,
		before.Comments
	if r.Pool == "" {
		r.Pool = before.Pool
	}
	if r.Origin == "" {
		r.Origin, r.Ephemeral = before.Origin, before.Ephemeral
	}
	r.MaxClaims = cmp.Or(r.MaxClaims, before.MaxClaims)
	switch {
	case r.FailedClaims > 0 || before.FailedClaims == 0:
	case before.Status == Parked && r.Status == Blocked:
		r.Status, r.Reason, r.FailedClaims = Parked, before.Reason, before.FailedClaims
	case before.Status != Parked:
		r.FailedClaims = before.FailedClaims
	}
	if before.Claim != nil && !r.closed() { // who does it goes on
		r.Status, r.Claim, r.Assignee = before.Status, before.Claim, before.Assignee
	}
}

// settle puts the task of a bead into a step, with all that belongs to it.
func (q *Queue) settle(s *step, r *record, b *Bead, before *record, ahead bool) error {
	if before == nil {
		if len(q.index.entries) >= MaxTasks {
			return fmt.Errorf("%w: there are %d, which is as many as are kept", ErrFull, len(q.index.entries))
		}
		q.number++
		r.Number = q.number
	}
	if err := r.check(); err != nil {
		return err
	}
	s.put(r)
	if err := q.refuseCircle(r.ID); err != nil {
		return err
	}
	if before != nil { // the text is in what the bead has brought
		s.also(store.Op{Kind: store.Delete, Key: q.textKey(r.ID)})
	}
	if before != nil || !ahead {
		s.also(q.brought(b))
	}
	return nil
}

// brought is what writes what is kept of a bead.
func (q *Queue) brought(b *Bead) store.Op {
	return store.Op{Kind: store.Put, Key: q.broughtKey(b.ID()), Value: plainJSON(b.rest)}
}
