package task

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
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/token"
)

// Register has a server answer requests about tasks.
func (s *Service) Register(server *api.Server) {
	s.RegisterReadOnly(server)
	handle(server, Count, s.count)
	handle(server, Todo, s.todo)
	handle(server, Add, func(ctx context.Context, who token.Caller, req AddRequest) (Task, error) {
		return s.submit(ctx, who, author(ctx, who, req.By), req.Task)
	})
	handle(server, Change, s.change)
	handle(server, AddComment, func(ctx context.Context, who token.Caller, req CommentRequest) (Task, error) {
		return s.Comment(ctx, author(ctx, who, req.By), req.ID, req.Text, req.Key)
	})
	handle(server, Claim, s.claim)
	handle(server, Await, s.await)
	handle(server, Act, s.act)
	handle(server, Import, s.importBeads)
}

// RegisterReadOnly has a server answer the requests that need no daemon.
func (s *Service) RegisterReadOnly(server *api.Server) {
	handle(server, List, s.list)
	handle(server, Show, func(ctx context.Context, _ token.Caller, req ShowRequest) (Detail, error) {
		d, err := s.Get(ctx, req.ID)
		d.Comments, d.Children = orEmpty(d.Comments), orEmpty(d.Children)
		return d, err
	})
	handle(server, Export, func(ctx context.Context, _ token.Caller, req ExportRequest) (BeadPage, error) {
		return s.Queue.Export(ctx, req.After)
	})
}

// handle registers a handler, whose errors become those of the API.
func handle[Req, Resp any](
	server *api.Server, r api.Route[Req, Resp], handler func(context.Context, token.Caller, Req) (Resp, error),
) {
	r.Handle(server, func(ctx context.Context, who token.Caller, req Req) (Resp, error) {
		resp, err := handler(ctx, who, req)
		return resp, apiError(err)
	})
}

// apiError makes an error of a Queue or its store one of the API, with the same text.
func apiError(err error) error {
	var kind error
	switch {
	case err == nil:
		return nil
	case store.Refused(err):
		kind = api.ErrConflict
	case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrUnknown):
		kind = api.ErrStopping // asking the next daemon again gets the same answer
	case errors.Is(err, ErrNotFound):
		kind = api.ErrNotFound
	case errors.Is(err, ErrInvalid):
		kind = api.ErrInvalid
	case errors.Is(err, ErrConflict), errors.Is(err, ErrFull):
		kind = api.ErrConflict
	case errors.Is(err, ErrStale):
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

// claimant is the caller as one who claims tasks; name is a person's.
func claimant(who token.Caller, name string) Who {
	if who == (token.Caller{}) {
		return Who{Name: cmp.Or(strings.TrimSpace(name), People)}
	}
	return Who{Path: who.Path, Incarnation: who.Incarnation}
}

// author is the caller as one who changes tasks without a claim. An order's run
// changes them in the name of the order, so that it does not fire the order again.
func author(ctx context.Context, who token.Caller, name string) Who {
	if by := api.OrderOf(ctx); by != "" {
		return Who{Name: order.PathOf(by)}
	}
	return claimant(who, name)
}

// resolve resolves the names in a filter.
func (s *Service) resolve(ctx context.Context, f Filter) (_ Filter, err error) {
	if f.Assignee, err = s.assignee(f.Assignee); err != nil || f.Parent == "" {
		return f, err
	}
	parent, err := s.Find(ctx, f.Parent)
	f.Parent = parent.ID
	return f, err
}

func (s *Service) list(ctx context.Context, _ token.Caller, req ListRequest) ([]Task, error) {
	f := req.filter()
	f.After, f.Limit = req.After, int(min(cmp.Or(req.Limit, maxPage), maxPage))
	f, err := s.resolve(ctx, f)
	if err != nil {
		return nil, err
	}
	return s.List(ctx, f)
}

func (s *Service) count(ctx context.Context, _ token.Caller, req Selection) (c Counted, err error) {
	f, err := s.resolve(ctx, req.filter())
	if err == nil {
		c.Count, err = s.Count(ctx, f)
	}
	return c, err
}

func (s *Service) todo(ctx context.Context, who token.Caller, _ api.None) ([]Task, error) {
	h, err := s.Hook(ctx, claimant(who, ""), s.o.Tree.Pools(who.Path))
	return slices.Concat(h.Mine, h.Ready, h.Pool), err
}

func (s *Service) change(ctx context.Context, who token.Caller, req EditRequest) (Task, error) {
	if req.Edit.Assignee != nil {
		full, err := s.assignee(*req.Edit.Assignee)
		if err != nil {
			return Task{}, err
		}
		req.Edit.Assignee = &full
	}
	t, err := s.Edit(ctx, author(ctx, who, req.By), req.ID, req.Edit)
	if err == nil && req.Edit.Assignee != nil {
		s.nudge(t, who)
	}
	return t, err
}

func (s *Service) claim(ctx context.Context, who token.Caller, req ClaimRequest) ([]Task, error) {
	if len(req.Pools) == 0 {
		req.Pools = s.o.Tree.Pools(who.Path)
	}
	t, err := s.Claim(ctx, claimant(who, req.By), Claiming{ID: req.ID, Pools: req.Pools, Any: req.Any, Key: req.Key})
	return claimed(t, err)
}

// claimed is a claim that has succeeded, or has found nothing.
func claimed(t Task, err error) ([]Task, error) {
	switch {
	case errors.Is(err, ErrNothing):
		return []Task{}, nil
	case err != nil:
		return nil, err
	}
	return []Task{t}, nil
}

func (s *Service) await(ctx context.Context, who token.Caller, req WaitRequest) ([]Task, error) {
	if most := math.MaxInt64 / float64(time.Second); !(req.Within >= 0 && req.Within < most) {
		return nil, fmt.Errorf("%w: within_seconds is %v, expected 0 to %.0f", api.ErrInvalid, req.Within, most)
	}
	if within := req.timeout(); within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, within, ErrNothing)
		defer cancel()
	}
	if len(req.Pools) == 0 {
		req.Pools = s.o.Tree.Pools(who.Path)
	}
	var t Task
	err := s.o.Await(ctx, who, func(ctx context.Context) (err error) {
		t, err = s.Await(ctx, claimant(who, ""), Claiming{Pools: req.Pools, Any: req.Any, Key: req.Key})
		return err
	})
	return claimed(t, err)
}

func (s *Service) act(ctx context.Context, who token.Caller, req ActRequest) (Task, error) {
	by := claimant(who, req.By)
	switch req.Action {
	case Release:
		return s.Release(ctx, by, req.ID, req.Reason)
	case Close:
		return s.Finish(ctx, by, req.ID, Ending{Outcome: req.Outcome, Reason: req.Reason, Force: req.Force})
	case Reopen:
		return s.Reopen(ctx, by, req.ID, req.Reason)
	case Retry:
		return s.Retry(ctx, by, req.ID, req.Reason)
	}
	return Task{}, fmt.Errorf("%w: action is %.100q, expected one of %v", api.ErrInvalid, req.Action, Actions())
}

func (s *Service) importBeads(ctx context.Context, _ token.Caller, req ImportRequest) (ImportReport, error) {
	if len(req.Beads) == 0 || len(req.Beads) > MaxImport {
		return ImportReport{}, fmt.Errorf("%w: there are %d beads, expected 1 to %d", api.ErrInvalid,
			len(req.Beads), MaxImport)
	}
	beads := make([]*Bead, len(req.Beads))
	for i, line := range req.Beads {
		var err error
		if beads[i], err = ParseBead(line); err != nil {
			return ImportReport{}, fmt.Errorf("beads[%d]: %w", i, err)
		}
	}
	return s.Queue.Import(ctx, author(ctx, token.Caller{}, req.By), beads)
}
