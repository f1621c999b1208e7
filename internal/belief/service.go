package belief

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/internal/value"
)

// Tree provides the nodes of the project to a Service.
type Tree interface {
	// Full returns the full path of a node, given an abbreviated one.
	Full(path string) string
	HasAgent(path string) bool
	HasSupervisor(path string) bool
	// NotFound returns the error for a path without a node.
	NotFound(path string) error
	// LastIncarnation returns the number of an agent's last incarnation, 0 if none is known.
	LastIncarnation(path string) uint64
}

// ServiceOptions configure a Service.
type ServiceOptions struct {
	Store  store.Store
	Log    *event.Log
	Logger *slog.Logger
	Tree   Tree
}

// Service handles requests about the beliefs of a Store.
type Service struct {
	Store *Store
	o     ServiceOptions
}

// NewService reads the beliefs of all agents. The caller decides whether to Report the problems.
func NewService(ctx context.Context, o ServiceOptions) (*Service, []Problem, error) {
	all, problems, err := Open(ctx, o.Store)
	return &Service{all, o}, problems, err
}

// Register adds the handlers of all belief routes to a server.
func (s *Service) Register(server *api.Server) {
	s.RegisterReadOnly(server)
	ReadOwn.Handle(server, func(ctx context.Context, who token.Caller, req OwnRequest) ([]Belief, error) {
		list, err := s.Store.Get(ctx, who.Path, who.Incarnation, req.Names...)
		return list, apiError(err)
	})
	ChangeOwn.Handle(server, func(ctx context.Context, who token.Caller, req OwnChange) (none api.None, _ error) {
		step := Step{Path: who.Path, By: who.Incarnation, Set: req.Set, Delete: req.Delete}
		if req.Summoned != "" {
			step.Path = who.Path + "/" + req.Summoned
		}
		return none, apiError(s.Store.Apply(ctx, step))
	})
	OpenSummoned.Handle(server, func(ctx context.Context, who token.Caller, req SummonedRequest) ([]Belief, error) {
		list, err := s.Store.OpenSummoned(ctx, who.Path, who.Incarnation, req.Agent, req.Names)
		return list, apiError(err)
	})
	Change.Handle(server, s.change)
	Import.Handle(server, s.importAll)
}

// RegisterReadOnly adds the handlers that change nothing.
func (s *Service) RegisterReadOnly(server *api.Server) {
	List.Handle(server, s.list)
	Read.Handle(server, func(ctx context.Context, _ token.Caller, req ReadRequest) ([]Belief, error) {
		path, err := s.resolve(req.Path)
		if err != nil {
			return nil, err
		}
		list, err := s.Store.Get(ctx, path, Person, req.Names...)
		return list, apiError(err)
	})
	ReadRaw.Handle(server, func(ctx context.Context, _ token.Caller, req RawRequest) (raw RawRecords, err error) {
		path, err := s.resolve(req.Path)
		if err != nil {
			return raw, err
		}
		raw.Record, raw.Aside, err = s.Store.Raw(ctx, path, req.Name)
		return raw, apiError(err)
	})
	Export.Handle(server, func(ctx context.Context, _ token.Caller, req ExportRequest) (e Exported, err error) {
		path, err := s.resolve(req.Path)
		if err != nil {
			return e, err
		}
		e.Beliefs, e.Unreadable, err = s.Store.Export(ctx, path)
		return e, apiError(err)
	})
}

// Start opens the beliefs of a new incarnation. secret is its token.
func (s *Service) Start(ctx context.Context, who token.Caller, secret string) error {
	problems, err := s.Store.Begin(ctx, who.Path, Life{Incarnation: who.Incarnation, ID: token.ID(secret)})
	s.Report(problems)
	return err
}

// Report logs problems and records each of them as an event.
func (s *Service) Report(problems []Problem) {
	for _, p := range problems {
		what := p.Path
		if p.Name != "" {
			what += ": belief " + p.Name
		}
		message := strings.TrimPrefix(what+": "+p.Message, ": ")
		s.o.Logger.Warn("beliefs: " + message)
		s.o.Log.Append(event.Event{
			Type: event.BeliefUnusable, Path: p.Path, Actor: "controller", Message: message,
		}.With(map[string]any{"name": p.Name}))
	}
}

// resolve returns the full path of an agent that is in the file or has stored beliefs.
func (s *Service) resolve(path string) (string, error) {
	full := s.o.Tree.Full(path)
	switch {
	case s.o.Tree.HasAgent(full) || len(s.Store.Agents(full)) > 0 && !s.o.Tree.HasSupervisor(full):
		return full, nil
	case s.o.Tree.HasSupervisor(full):
		return "", errSupervisor(full)
	case len(s.Store.Agents(path)) > 0: // stored under another project name
		return path, nil
	}
	return "", s.o.Tree.NotFound(full)
}

func errSupervisor(path string) error {
	return fmt.Errorf("%w: %s is a supervisor; agents have beliefs", api.ErrInvalid, path)
}

func (s *Service) list(_ context.Context, _ token.Caller, req ListRequest) ([]Agent, error) {
	from := ""
	if req.Path != "" {
		from = s.o.Tree.Full(req.Path)
	}
	agents := s.Store.Agents(from)
	if len(agents) == 0 && from != "" {
		agents = s.Store.Agents(req.Path)
		if len(agents) == 0 && !s.o.Tree.HasAgent(from) && !s.o.Tree.HasSupervisor(from) {
			return nil, s.o.Tree.NotFound(from)
		}
	}
	return agents, nil
}

func (s *Service) change(ctx context.Context, _ token.Caller, req ChangeRequest) (none api.None, err error) {
	switch {
	case req.Path == "":
		return none, fmt.Errorf("%w: path is missing", api.ErrInvalid)
	case req.Clear && len(req.Set)+len(req.Delete) > 0:
		return none, fmt.Errorf("%w: clear cannot be combined with set or delete", api.ErrInvalid)
	}
	path, err := s.resolve(req.Path)
	if err != nil {
		return none, err
	}
	removed := req.Delete
	if req.Clear {
		removed, err = s.Store.Clear(ctx, path)
	} else {
		err = s.Store.Apply(ctx, Step{Path: path, By: Person, Set: req.Set, Delete: removed})
	}
	if err == nil {
		s.recordChange(path, slices.Sorted(maps.Keys(req.Set)), removed)
	}
	return none, apiError(err)
}

// importAll imports beliefs of an agent, which need not be in the file yet.
func (s *Service) importAll(ctx context.Context, _ token.Caller, req ImportRequest) (none api.None, err error) {
	if req.Path == "" {
		return none, fmt.Errorf("%w: path is missing", api.ErrInvalid)
	}
	path := s.o.Tree.Full(req.Path)
	if s.o.Tree.HasSupervisor(path) {
		return none, errSupervisor(path)
	}
	if err = s.Store.Import(ctx, path, req.Beliefs); err == nil {
		s.recordChange(path, slices.Sorted(maps.Keys(req.Beliefs)), nil)
	}
	return none, apiError(err)
}

// recordChange records a change by a person as an event. Changes by agents are too frequent for
// that.
func (s *Service) recordChange(path string, set, removed []string) {
	var parts []string
	for what, names := range map[string][]string{"set": set, "removed": removed} {
		switch n := len(names); {
		case n == 0:
		case n <= 10:
			parts = append(parts, strings.Join(names, ", ")+" "+what)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	slices.Sort(parts)
	const most = 100
	s.o.Log.Append(event.Event{
		Type: event.BeliefChanged, Path: path, Incarnation: s.o.Tree.LastIncarnation(path), Actor: "user",
		Message: fmt.Sprintf("%s: beliefs changed by hand: %s", path, strings.Join(parts, "; ")),
	}.With(map[string]any{"set": set[:min(most, len(set))], "removed": removed[:min(most, len(removed))]}))
}

// apiError translates an error of a Store for the API, with the same text.
func apiError(err error) error {
	var limit *value.LimitError
	var kind error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrStale):
		kind = token.ErrStale
	case errors.Is(err, ErrNotFound):
		kind = api.ErrNotFound
	case errors.Is(err, ErrRefused), errors.As(err, &limit):
		kind = api.ErrInvalid
	case store.Refused(err):
		kind = api.ErrConflict
	default:
		return err
	}
	return api.NewError(kind, err.Error())
}
