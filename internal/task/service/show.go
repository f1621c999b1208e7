package service

import (
	"context"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/token"
)

// show returns a task with its attempts, and what these have used.
func (s *Service) show(ctx context.Context, _ token.Caller, req task.ShowRequest) (task.Detail, error) {
	get := s.queue.Get
	if req.Brief {
		get = s.queue.Brief
	}
	d, err := get(ctx, req.ID)
	d.Gate = s.blocked.Gate(d.Task.ID)
	d.Comments, d.Attempts, d.Children = orEmpty(d.Comments), orEmpty(d.Attempts), orEmpty(d.Children)
	if err != nil || len(d.Attempts) == 0 {
		return d, err
	}
	used, err := s.o.Used(ctx, d.Task.ID)
	for i, a := range d.Attempts {
		d.Attempts[i].Used = useOf(used[a.Number])
	}
	return d, err
}

// useOf returns what is known of the use of an attempt; nil if it has made no call that is known.
func useOf(s cost.Sum) *task.Use {
	if s.Calls == 0 {
		return nil
	}
	u := &task.Use{Calls: s.Calls, UnknownTokens: s.UnknownTokens, UnknownDollars: s.UnknownDollars}
	if s.UnknownTokens < s.Calls {
		u.Tokens = &s.Tokens
	}
	if s.UnknownDollars < s.Calls {
		u.Dollars = &s.Dollars
	}
	return u
}
