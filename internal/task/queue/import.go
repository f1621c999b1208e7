package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/transfer"
)

// effect tells what an import has done with a bead.
type effect int

const (
	unchanged effect = iota
	created
	updated
)

// Import creates or updates tasks from beads and keeps their ids. An existing task is replaced
// only by a newer bead. Beads must come after those they wait for, as in Plan.Order. Each bead is
// one step, so an interrupted import leaves valid tasks. An error names the bead that failed; the
// beads after it are not imported.
func (q *Queue) Import(
	ctx context.Context, actor task.Actor, beads []*transfer.Bead,
) (report task.ImportReport, err error) {
	select { // one import at a time writes ahead
	case q.importing <- struct{}{}:
		defer func() { <-q.importing }()
	case <-ctx.Done():
		return report, context.Cause(ctx)
	}
	ahead, err := q.writeAhead(ctx, beads)
	if err != nil {
		return report, err
	}
	effects := make([]effect, len(beads))
	done := 0 // beads whose effect is durable
	for done < len(beads) && err == nil {
		var steps []*step
		for i := done; i < len(beads) && err == nil; i++ {
			var s *step
			if s, effects[i], err = q.importBead(ctx, beads[i], ahead[beads[i].ID()]); err == nil {
				steps = append(steps, s)
			}
		}
		for _, s := range steps {
			if e := s.wait(ctx); errors.Is(e, errRetry) {
				err = nil // the later beads have to be decided again
				break
			} else if e != nil {
				err = e
				break
			}
			done++
		}
		if err != nil && done < len(beads) {
			err = fmt.Errorf("%s: %w", beads[done].ID(), err)
		}
	}
	var counts [updated + 1]int
	for _, o := range effects[:done] {
		counts[o]++
	}
	report = task.ImportReport{Created: counts[created], Updated: counts[updated], Unchanged: counts[unchanged]}
	if n := report.Created + report.Updated; n > 0 {
		eventErr := q.Update(ctx, func(s *task.Step) error {
			s.Emit(task.Event{Kind: task.Imported, By: actor, Count: n})
			return nil
		})
		err = cmp.Or(err, eventErr)
	}
	return report, err
}

// writeAhead writes the imported part of beads that have no task yet, and returns their ids.
// Nothing reads it before the task exists, so the order is free and writes can share commits.
func (q *Queue) writeAhead(ctx context.Context, beads []*transfer.Bead) (written map[string]bool, err error) {
	var fresh []*transfer.Bead
	err = q.View(ctx, func(s *task.State) {
		written, fresh = make(map[string]bool, len(beads)), fresh[:0]
		for _, b := range beads {
			if s.Record(b.ID()) == nil && !written[b.ID()] {
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
			if err := q.records.apply(ctx, some); err != nil {
				failed.Store(&err)
			}
		})
	}
	for _, b := range fresh {
		op := writeOp(task.Write{Part: task.ImportedPart, ID: b.ID(), Value: b.Kept()})
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

// apply writes ops that only this queue writes, and that may be repeated.
func (s *records) apply(ctx context.Context, ops []store.Op) error {
	for range attempts(ctx) {
		_, err := s.store.Apply(ctx, store.Fence{}, nil, ops)
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return context.Cause(ctx)
}

// importBead imports a bead in a step that may not be durable yet. ahead reports whether its
// imported part is written already.
func (q *Queue) importBead(ctx context.Context, bead *transfer.Bead, ahead bool) (*step, effect, error) {
	for {
		var before *task.Record
		if err := q.engine.look(ctx, func(s *task.State) { before = s.Record(bead.ID()) }); err != nil {
			return nil, 0, err
		}
		if before != nil && !bead.Task().UpdatedAt.After(before.UpdatedAt) {
			// The answer is valid once the pending steps are durable.
			s, _, err := q.engine.propose(ctx, func(*task.Step) error { return nil })
			return s, unchanged, err
		}
		comments, err := q.records.newComments(ctx, before, bead.Comments())
		if err != nil {
			return nil, 0, err
		}
		var kept []byte
		if before != nil || !ahead {
			kept = bead.Kept()
		}
		s, err := q.replace(ctx, task.NewImported(bead.Task(), before), before, comments, kept)
		switch {
		case errors.Is(err, errRetry):
		case err != nil:
			return nil, 0, err
		case before != nil:
			return s, updated, nil
		default:
			return s, created, nil
		}
	}
}

// newComments returns the comments that a task does not have.
func (s *records) newComments(
	ctx context.Context, r *task.Record, comments []task.SavedComment,
) ([]task.SavedComment, error) {
	if r == nil || r.Comments == 0 || len(comments) == 0 {
		return comments, nil
	}
	there, err := s.comments(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(comments), func(c task.SavedComment) bool {
		return slices.ContainsFunc(there, func(old task.SavedComment) bool {
			return c.By == old.By && c.Text == old.Text && c.At.Equal(old.At)
		})
	}), nil
}

// replace replaces a record, or adds one if before is nil. It returns errRetry if before is no
// longer the current record.
func (q *Queue) replace(
	ctx context.Context, r, before *task.Record, comments []task.SavedComment, kept []byte,
) (*step, error) {
	if n := r.Comments + len(comments); n > task.MaxComments {
		return nil, fmt.Errorf("%w: it would have %d comments, at most %d are kept", task.ErrFull, n, task.MaxComments)
	}
	// Comments that do not fit into one step are written earlier. Nothing reads them until the
	// record counts them.
	const some = task.MaxStep - 10
	for {
		last := len(comments) <= some && size(comments) <= store.MaxValue/2
		n := len(comments)
		if !last {
			for n = 1; n < min(some, len(comments)) && size(comments[:n+1]) <= store.MaxValue/2; n++ {
			}
		}
		s, _, err := q.engine.propose(ctx, func(s *task.Step) error {
			if s.Record(r.ID) != before {
				return errRetry
			}
			for _, c := range comments[:n] {
				s.AddComment(r, c)
			}
			if !last {
				return nil
			}
			return s.Import(r, before, kept)
		})
		if err != nil || last {
			return s, err
		}
		if err := s.wait(ctx); err != nil {
			return nil, err
		}
		comments = comments[n:]
	}
}

func size(comments []task.SavedComment) (n int) {
	for _, c := range comments {
		n += len(c.Text) + len(c.Imported) + 1<<10
	}
	return n
}
