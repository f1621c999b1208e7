package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
	"github.com/coppice-dev/coppice/internal/task/transfer"
	"github.com/coppice-dev/coppice/internal/token"
)

// Register adds the handlers of all task routes to a server.
func (s *Service) Register(server *api.Server) {
	s.RegisterReadOnly(server)
	handle(server, task.Todo, s.todo)
	handle(server, task.Add, func(ctx context.Context, who token.Caller, req task.AddRequest) (task.Task, error) {
		return s.submit(ctx, who, author(ctx, who, req.By), req.Task)
	})
	handle(server, task.Change, s.change)
	handle(server, task.AddComment, s.comment)
	handle(server, task.Claim, s.claim)
	handle(server, task.Await, s.await)
	handle(server, task.Act, s.act)
	handle(server, task.ActOnPool, s.actOnPool)
	handle(server, task.Block, func(ctx context.Context, who token.Caller, req task.BlockRequest) (task.Task, error) {
		return s.queue.Block(ctx, claimant(who, req.By), req.ID, req.Condition, req.Reason)
	})
	handle(server, task.Import, s.importBeads)
}

// RegisterReadOnly adds the handlers that work without a daemon.
func (s *Service) RegisterReadOnly(server *api.Server) {
	handle(server, task.List, s.list)
	handle(server, task.Count, s.count)
	handle(server, task.Show, s.show)
	handle(server, task.Export, s.export)
	handle(server, task.Pools, func(ctx context.Context, _ token.Caller, _ api.None) (all []pools.Pool, err error) {
		err = s.queue.View(ctx, func(state *task.State) { all = state.Pools() })
		return orEmpty(all), err
	})
}

// handle registers a handler and translates its errors with apiError.
func handle[Req, Resp any](
	server *api.Server, r api.Route[Req, Resp], handler func(context.Context, token.Caller, Req) (Resp, error),
) {
	r.Handle(server, func(ctx context.Context, who token.Caller, req Req) (Resp, error) {
		resp, err := handler(ctx, who, req)
		return resp, apiError(err)
	})
}

// apiError translates an error of a Queue or its store for the API, with the same text.
func apiError(err error) error {
	var kind error
	switch {
	case err == nil:
		return nil
	case store.Refused(err):
		kind = api.ErrConflict
	case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrUnknown):
		kind = api.ErrStopping // a retry with the next daemon gets the answer
	case errors.Is(err, task.ErrNotFound):
		kind = api.ErrNotFound
	case errors.Is(err, task.ErrInvalid):
		kind = api.ErrInvalid
	case errors.Is(err, task.ErrConflict), errors.Is(err, task.ErrFull):
		kind = api.ErrConflict
	case errors.Is(err, task.ErrStale):
		kind = token.ErrStale
	default:
		return err
	}
	return api.NewError(kind, err.Error())
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// claimant returns the caller as an actor. name is the name of a person.
func claimant(who token.Caller, name string) task.Actor {
	if who == (token.Caller{}) {
		return task.Actor{Name: cmp.Or(strings.TrimSpace(name), task.People)}
	}
	return task.Actor{Path: who.Path, Incarnation: who.Incarnation}
}

// author returns the actor of a change that is no claim. Changes by the run of an order are in the
// name of the order, so that they do not fire it again.
func author(ctx context.Context, who token.Caller, name string) task.Actor {
	if by := api.OrderOf(ctx); by != "" {
		return task.Actor{Name: order.PathOf(by)}
	}
	return claimant(who, name)
}

// resolve replaces abbreviated names in a filter by full ones.
func (s *Service) resolve(ctx context.Context, f task.Filter) (_ task.Filter, err error) {
	if f.Assignee, err = s.assignee(f.Assignee); err != nil || f.Parent == "" {
		return f, err
	}
	parent, err := s.queue.Find(ctx, f.Parent)
	f.Parent = parent.ID
	return f, err
}

func (s *Service) list(ctx context.Context, _ token.Caller, req task.ListRequest) ([]task.Task, error) {
	f, err := s.resolve(ctx, req.Filter)
	if err != nil {
		return nil, err
	}
	return s.queue.List(ctx, f, int(min(cmp.Or(req.Limit, task.MaxPage), task.MaxPage)), req.After)
}

func (s *Service) count(ctx context.Context, _ token.Caller, f task.Filter) (c task.Counted, err error) {
	f, err = s.resolve(ctx, f)
	if err == nil {
		c.Count, err = s.queue.Count(ctx, f)
	}
	return c, err
}

func (s *Service) todo(ctx context.Context, who token.Caller, _ api.None) ([]task.Task, error) {
	h, err := s.queue.Hook(ctx, claimant(who, ""), s.o.Tree.Pools(who.Path))
	return slices.Concat(h.Mine, h.Ready, h.Pool), err
}

func (s *Service) change(ctx context.Context, who token.Caller, req task.EditRequest) (task.Task, error) {
	if req.Edit.Assignee != nil {
		full, err := s.assignee(*req.Edit.Assignee)
		if err != nil {
			return task.Task{}, err
		}
		req.Edit.Assignee = &full
	}
	t, err := s.queue.Change(ctx, func(step *task.Step) (task.Task, error) {
		return step.Edit(author(ctx, who, req.By), req.ID, req.Edit)
	})
	if err == nil && req.Edit.Assignee != nil {
		s.nudge(t, who)
	}
	return t, err
}

func (s *Service) comment(ctx context.Context, who token.Caller, req task.CommentRequest) (task.Task, error) {
	return s.queue.Change(ctx, func(step *task.Step) (task.Task, error) {
		return step.Comment(author(ctx, who, req.By), req.ID, req.Text, req.Key)
	})
}

func (s *Service) export(ctx context.Context, _ token.Caller, req task.ExportRequest) (task.BeadPage, error) {
	return s.queue.Export(ctx, req.After)
}

func (s *Service) claim(ctx context.Context, who token.Caller, req task.ClaimRequest) ([]task.Task, error) {
	if len(req.Pools) == 0 {
		req.Pools = s.o.Tree.Pools(who.Path)
	}
	t, err := s.queue.Change(ctx, func(step *task.Step) (task.Task, error) {
		return step.Claim(claimant(who, req.By), task.Claiming{
			ID: req.ID, Pools: req.Pools, Any: req.Any, Key: req.Key,
		})
	})
	return claimed(t, err)
}

// claimed returns the result of a claim; an empty list if no task was ready.
func claimed(t task.Task, err error) ([]task.Task, error) {
	switch {
	case errors.Is(err, task.ErrNothing):
		return []task.Task{}, nil
	case err != nil:
		return nil, err
	}
	return []task.Task{t}, nil
}

func (s *Service) await(ctx context.Context, who token.Caller, req task.WaitRequest) ([]task.Task, error) {
	if most := math.MaxInt64 / float64(time.Second); !(req.Within >= 0 && req.Within < most) {
		return nil, fmt.Errorf("%w: within_seconds is %v, expected 0 to %.0f", api.ErrInvalid, req.Within, most)
	}
	if within := req.Timeout(); within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, within, task.ErrNothing)
		defer cancel()
	}
	if len(req.Pools) == 0 {
		req.Pools = s.o.Tree.Pools(who.Path)
	}
	var t task.Task
	err := s.o.Await(ctx, who, func(ctx context.Context) (err error) {
		t, err = s.queue.Await(ctx, claimant(who, ""), task.Claiming{Pools: req.Pools, Any: req.Any, Key: req.Key})
		return err
	})
	return claimed(t, err)
}

func (s *Service) act(ctx context.Context, who token.Caller, req task.ActRequest) (task.Task, error) {
	by := claimant(who, req.By)
	return s.queue.Change(ctx, func(step *task.Step) (task.Task, error) {
		switch req.Action {
		case task.Release:
			return step.Release(by, req.ID, req.Reason)
		case task.Close:
			return step.Finish(by, req.ID, task.Ending{Outcome: req.Outcome, Reason: req.Reason, Force: req.Force})
		case task.Reopen:
			return step.Reopen(by, req.ID, req.Reason)
		case task.Retry:
			return step.Retry(by, req.ID, req.Reason)
		case task.Approve:
			return step.Answer(by, req.ID, strings.TrimSuffix("approved: "+req.Reason, ": "))
		case task.Reject:
			return step.Reject(by, req.ID, req.Reason)
		}
		return task.Task{}, fmt.Errorf("%w: action is %.100q, expected one of %v", api.ErrInvalid, req.Action,
			task.Actions())
	})
}

func (s *Service) actOnPool(ctx context.Context, who token.Caller, req task.PoolRequest) (p pools.Pool, err error) {
	by := claimant(who, req.By)
	err = s.queue.Update(ctx, func(step *task.Step) (err error) {
		switch req.Action {
		case task.PausePool:
			p, err = step.PausePool(by, req.Pool, req.Reason)
		case task.ResumePool:
			p, err = step.ResumePool(by, req.Pool)
		default:
			err = fmt.Errorf("%w: action is %.100q, expected pause or resume", api.ErrInvalid, req.Action)
		}
		return err
	})
	return p, err
}

// Report ends the attempt of an agent at a task, and returns that. An empty id means the only task that the agent has
// claimed; if it has claimed none, Report returns nil.
func (s *Service) Report(ctx context.Context, who token.Caller, id string, o outcome.Outcome) (*task.Task, error) {
	by := claimant(who, "")
	if id == "" {
		h, err := s.queue.Hook(ctx, by, nil)
		switch {
		case err != nil:
			return nil, apiError(err)
		case len(h.Mine) == 0:
			return nil, nil
		case len(h.Mine) > 1:
			var ids []string
			for _, t := range h.Mine {
				ids = append(ids, t.ID)
			}
			return nil, api.NewError(api.ErrInvalid, fmt.Sprintf("%s has claimed several tasks, and the outcome "+
				"names none of them: %s", who.Path, strings.Join(ids, ", ")))
		}
		id = h.Mine[0].ID
	}
	t, err := s.queue.Report(ctx, by, id, o)
	return &t, apiError(err)
}

func (s *Service) importBeads(ctx context.Context, _ token.Caller, req task.ImportRequest) (task.ImportReport, error) {
	if len(req.Beads) == 0 || len(req.Beads) > task.MaxImport {
		return task.ImportReport{}, fmt.Errorf("%w: there are %d beads, expected 1 to %d", api.ErrInvalid,
			len(req.Beads), task.MaxImport)
	}
	beads := make([]*transfer.Bead, len(req.Beads))
	for i, line := range req.Beads {
		var err error
		if beads[i], err = transfer.ParseBead(line); err != nil {
			return task.ImportReport{}, fmt.Errorf("beads[%d]: %w", i, err)
		}
	}
	return s.queue.Import(ctx, author(ctx, token.Caller{}, req.By), beads)
}
