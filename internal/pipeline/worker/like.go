package worker

import (
	"context"
	"slices"

	"github.com/coppice-dev/coppice/internal/task"
)

const (
	maxLooked = 200 // tasks among which like ones are searched
	maxLike   = 5   // like tasks
)

// likes finds tasks like one whose attempts have failed: of the same pool, first those next to it,
// of its type or with one of its labels.
func (w *worker) likes(ctx context.Context, t task.Task) (like []task.Detail, err error) {
	var all []task.Task
	err = w.reach(ctx, func(ctx context.Context) (err error) {
		all, err = task.List.Call(ctx, w.client, task.ListRequest{Filter: task.Filter{Pool: t.Pool}, Limit: maxLooked})
		return err
	})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(o task.Task) bool {
		return o.ID == t.ID || o.Retries == 0 && o.FailedClaims == 0 || t.Pool == ""
	})
	slices.SortStableFunc(all, func(x, y task.Task) int {
		if d := alike(t, y) - alike(t, x); d != 0 {
			return d
		}
		return y.UpdatedAt.Compare(x.UpdatedAt)
	})
	for _, o := range all[:min(len(all), maxLike)] {
		d, err := w.show(ctx, o.ID)
		if err != nil {
			return nil, err
		}
		like = append(like, d)
	}
	return like, nil
}

// show returns a task; an empty one if it is gone.
func (w *worker) show(ctx context.Context, id string) (d task.Detail, err error) {
	err = w.reach(ctx, func(ctx context.Context) (err error) {
		d, err = task.Show.Call(ctx, w.client, task.ShowRequest{ID: id})
		return err
	})
	if err != nil && ctx.Err() == nil {
		w.say("cannot read the task %s: %v", id, err)
		err = nil
	}
	return d, err
}

// maxDepth is the number of levels of subtasks.
const maxDepth = 3

// depth returns on which level of subtasks a task is; 0 for none.
func (w *worker) depth(ctx context.Context, t task.Task) (n int, err error) {
	for parent := t.Parent; parent != "" && n < maxDepth; n++ {
		d, err := w.show(ctx, parent)
		if err != nil {
			return n, err
		}
		if !d.Task.Decomposed {
			break
		}
		parent = d.Task.Parent
	}
	return n, nil
}

// alike says how much a task is like another one.
func alike(t, o task.Task) (n int) {
	if t.Parent != "" && t.Parent == o.Parent {
		n += 2
	}
	if t.Type != "" && t.Type == o.Type {
		n++
	}
	if slices.ContainsFunc(t.Labels, func(l string) bool { return slices.Contains(o.Labels, l) }) {
		n++
	}
	return n
}
