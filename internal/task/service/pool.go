package service

import (
	"context"

	"github.com/coppice-dev/coppice/internal/task"
)

// PoolTasks returns the state of a pool and the numbers of its tasks.
func (s *Service) PoolTasks(ctx context.Context, pool string) (t task.PoolTasks, err error) {
	err = s.queue.View(ctx, func(state *task.State) { t = state.PoolTasks(pool) })
	return t, apiError(err)
}

// LastAttempts returns the last attempts at tasks of a pool, at most n, the latest first.
func (s *Service) LastAttempts(ctx context.Context, pool string, n int) ([]task.Tried, error) {
	all, err := s.queue.LastAttempts(ctx, pool, n)
	return orEmpty(all), apiError(err)
}
