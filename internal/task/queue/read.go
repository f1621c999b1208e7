package queue

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// read returns a value from the state once everything it is based on is durable.
func read[T any](ctx context.Context, q *Queue, look func(*task.State) (T, error)) (found T, err error) {
	var failed error
	err = q.View(ctx, func(s *task.State) { found, failed = look(s) })
	return found, cmp.Or(err, failed)
}

// List returns tasks by priority, then by age; see task.State.List.
func (q *Queue) List(ctx context.Context, f task.Filter, limit int, after string) ([]task.Task, error) {
	return read(ctx, q, func(s *task.State) ([]task.Task, error) { return s.List(f, limit, after) })
}

// Count returns how many tasks a filter selects.
func (q *Queue) Count(ctx context.Context, f task.Filter) (int, error) {
	return read(ctx, q, func(s *task.State) (int, error) { return s.Count(f) })
}

// Parked returns the number of parked tasks.
func (q *Queue) Parked() (n int) {
	q.engine.peek(func(s *task.State) { n = s.Parked() })
	return n
}

// Counts returns the number of tasks by status. Like Parked it waits for nothing.
func (q *Queue) Counts() (counts map[task.Status]int) {
	q.engine.peek(func(s *task.State) { counts = s.Counts() })
	return counts
}

// PausedPools returns the pools whose tasks are not claimed, or one at a time. Like Parked it waits for nothing, so
// that a view for people also works while the store does not.
func (q *Queue) PausedPools() (all []pools.Pool) {
	q.engine.peek(func(s *task.State) { all = s.Pools() })
	return slices.DeleteFunc(all, func(p pools.Pool) bool { return p.State == pools.Open })
}

// Hook returns the work there is for an incarnation.
func (q *Queue) Hook(ctx context.Context, actor task.Actor, pools []string) (task.Hook, error) {
	return read(ctx, q, func(s *task.State) (task.Hook, error) { return s.Hook(actor, pools), nil })
}

// Waits returns what blocked tasks wait for, sorted by id.
func (q *Queue) Waits(ctx context.Context) ([]task.Wait, error) {
	return read(ctx, q, func(s *task.State) ([]task.Wait, error) { return s.Waits(), nil })
}

// LastAttempts returns the last attempts at tasks of a pool, at most n, the latest first. n is above 0.
func (q *Queue) LastAttempts(ctx context.Context, pool string, n int) (all []task.Tried, err error) {
	tasks, err := read(ctx, q, func(s *task.State) ([]task.Task, error) { return s.LastTried(pool, n), nil })
	if err != nil {
		return nil, err
	}
	for _, t := range tasks { // an attempt at any other task has ended before the last ones at these
		attempts, err := q.records.attempts(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		for _, a := range attempts {
			all = append(all, task.Tried{Task: t.ID, Title: t.Title, Attempt: a})
		}
	}
	slices.SortStableFunc(all, func(a, b task.Tried) int { return b.Attempt.EndedAt.Compare(a.Attempt.EndedAt) })
	return all[:min(len(all), n)], nil
}

// Find returns a task without its text and comments.
func (q *Queue) Find(ctx context.Context, id string) (task.Task, error) {
	return read(ctx, q, func(s *task.State) (t task.Task, err error) {
		r, err := s.Find(id)
		if err == nil {
			t = s.Show(r)
		}
		return t, err
	})
}

// Get returns a task with its text, comments, attempts and children.
func (q *Queue) Get(ctx context.Context, id string) (task.Detail, error) {
	d, r, err := q.brief(ctx, id)
	if err != nil {
		return task.Detail{}, err
	}
	if d.Text, err = q.records.text(ctx, r); err != nil {
		return task.Detail{}, err
	}
	all, err := q.records.comments(ctx, r.ID)
	for _, c := range all {
		d.Comments = append(d.Comments, c.Comment)
	}
	return d, err
}

// Brief is Get without the text and the comments, which may be large.
func (q *Queue) Brief(ctx context.Context, id string) (task.Detail, error) {
	d, _, err := q.brief(ctx, id)
	return d, err
}

func (q *Queue) brief(ctx context.Context, id string) (d task.Detail, r *task.Record, err error) {
	const children = 200
	r, err = read(ctx, q, func(s *task.State) (*task.Record, error) {
		r, err := s.Find(id)
		if err == nil {
			d.Task, d.Children = s.Show(r), s.Children(r, children)
		}
		return r, err
	})
	if err == nil {
		d.Attempts, err = q.records.attempts(ctx, r.ID)
	}
	return d, r, err
}
