package queue

import (
	"context"

	"github.com/coppice-dev/coppice/internal/task"
)

// These functions decide one step each, as callers of a Queue do.

func edit(ctx context.Context, q *Queue, actor task.Actor, id string, e task.Edit) (task.Task, error) {
	return q.Change(ctx, func(s *task.Step) (task.Task, error) { return s.Edit(actor, id, e) })
}

func comment(ctx context.Context, q *Queue, actor task.Actor, id, text, key string) (task.Task, error) {
	return q.Change(ctx, func(s *task.Step) (task.Task, error) { return s.Comment(actor, id, text, key) })
}

func tryClaim(ctx context.Context, q *Queue, actor task.Actor, c task.Claiming) (task.Task, error) {
	return q.Change(ctx, func(s *task.Step) (task.Task, error) { return s.Claim(actor, c) })
}

func release(ctx context.Context, q *Queue, actor task.Actor, id, reason string) (task.Task, error) {
	return q.Change(ctx, func(s *task.Step) (task.Task, error) { return s.Release(actor, id, reason) })
}

func tryFinish(ctx context.Context, q *Queue, actor task.Actor, id string, e task.Ending) (task.Task, error) {
	return q.Change(ctx, func(s *task.Step) (task.Task, error) { return s.Finish(actor, id, e) })
}

func reopen(ctx context.Context, q *Queue, actor task.Actor, id, reason string) (task.Task, error) {
	return q.Change(ctx, func(s *task.Step) (task.Task, error) { return s.Reopen(actor, id, reason) })
}

func retry(ctx context.Context, q *Queue, actor task.Actor, id, reason string) (task.Task, error) {
	return q.Change(ctx, func(s *task.Step) (task.Task, error) { return s.Retry(actor, id, reason) })
}
