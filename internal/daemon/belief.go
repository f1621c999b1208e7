package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/value"
)

// openBeliefs reads the beliefs of all agents.
func (c *Controller) openBeliefs(ctx context.Context) error {
	problems, err := c.readBeliefs(ctx)
	if err != nil {
		return err
	}
	c.opts.programs.SetBeliefs(c.beliefs)
	c.unusable(problems)
	return nil
}

func (c *Controller) readBeliefs(ctx context.Context) (problems []belief.Problem, err error) {
	c.beliefs, problems, err = belief.Open(ctx, c.opts.Store)
	if err == nil {
		c.declareBeliefs(c.fleet())
	}
	return problems, err
}

// remember opens the beliefs of an incarnation.
func (c *Controller) remember(ctx context.Context, who api.Caller, token string) error {
	problems, err := c.beliefs.Begin(ctx, who.Path, belief.Life{Incarnation: who.Incarnation, ID: lifeOf(token)})
	c.unusable(problems)
	return err
}

// lifeOf is a name for the incarnation that has a token, and does not tell the token.
func lifeOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:16])
}

// unusable tells of what is kept and cannot be used.
func (c *Controller) unusable(problems []belief.Problem) {
	for _, p := range problems {
		what := p.Path
		if p.Name != "" {
			what += ": belief " + p.Name
		}
		message := strings.TrimPrefix(what+": "+p.Message, ": ")
		c.opts.Logger.Warn("beliefs: " + message)
		c.log.Append(event.Event{Type: event.BeliefUnusable, Path: p.Path, Actor: "controller",
			Message: message}.With(map[string]any{"name": p.Name}))
	}
}

// holder is the path of an agent that has beliefs, or may have some.
func (c *Controller) holder(path string) (string, error) {
	full := c.resolvePath(path)
	switch {
	case c.fleet().Agents[full] != nil || len(c.beliefs.Agents(full)) > 0 && c.fleet().Nodes[full] == nil:
		return full, nil
	case c.fleet().Nodes[full] != nil:
		return "", fmt.Errorf("%w: %s is a supervisor; agents have beliefs", api.ErrInvalid, full)
	case len(c.beliefs.Agents(path)) > 0: // of a project that had another name
		return path, nil
	}
	return "", c.noNode(full)
}

// refused translates the errors of the book.
func refused(err error) error {
	var limit *value.LimitError
	kind := error(nil)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, belief.ErrStale):
		kind = api.ErrStale
	case errors.Is(err, belief.ErrNotFound):
		kind = api.ErrNotFound
	case errors.Is(err, belief.ErrRefused), errors.As(err, &limit):
		kind = api.ErrInvalid
	case store.Refused(err):
		kind = api.ErrConflict
	default:
		return err
	}
	return &apiError{err, kind}
}

// OwnBeliefs is part of api.OwnBeliefs.
func (c *Controller) OwnBeliefs(ctx context.Context, who api.Caller, names []string) ([]api.Belief, error) {
	list, err := c.beliefs.Get(ctx, who.Path, who.Incarnation, names...)
	return shown(list), refused(err)
}

// ChangeOwn is part of api.OwnBeliefs.
func (c *Controller) ChangeOwn(ctx context.Context, who api.Caller, s api.BeliefStep) error {
	return refused(c.beliefs.Apply(ctx, belief.Step{Path: who.Path, By: who.Incarnation, Set: s.Set, Delete: s.Delete}))
}

// AllBeliefs is part of api.Beliefs.
func (c *Controller) AllBeliefs(_ context.Context, path string) ([]api.AgentBeliefs, error) {
	from := ""
	if path != "" {
		from = c.resolvePath(path)
	}
	agents := c.beliefs.Agents(from)
	if len(agents) == 0 && from != "" {
		if agents = c.beliefs.Agents(path); len(agents) == 0 && c.fleet().Agents[from] == nil &&
			c.fleet().Nodes[from] == nil {
			return nil, c.noNode(from)
		}
	}
	var list []api.AgentBeliefs
	for _, a := range agents {
		list = append(list, api.AgentBeliefs{Path: a.Path, Known: a.Known, Incarnation: a.Incarnation, Count: a.Count,
			Bytes: a.Bytes, Beliefs: shown(a.Beliefs)})
	}
	return list, nil
}

// shown is what the wire says of beliefs.
func shown(list []belief.Belief) []api.Belief {
	all := make([]api.Belief, len(list))
	for i, b := range list {
		all[i] = api.Belief{
			Name: b.Name, Type: b.Type.String(), Value: b.Value, Size: b.Size, Origin: string(b.From),
			Persistent: b.Persistent, Declared: b.Declared, Incarnation: b.Incarnation, Problem: b.Problem,
			Aside: b.Aside,
		}
		if !b.Time.IsZero() {
			all[i].Time = &b.Time
		}
	}
	return all
}

// Beliefs is part of api.Beliefs.
func (c *Controller) Beliefs(ctx context.Context, path string, names []string) ([]api.Belief, error) {
	path, err := c.holder(path)
	if err != nil {
		return nil, err
	}
	list, err := c.beliefs.Get(ctx, path, belief.Person, names...)
	return shown(list), refused(err)
}

// RawBelief is part of api.Beliefs.
func (c *Controller) RawBelief(ctx context.Context, path, name string) (api.RawBelief, error) {
	path, err := c.holder(path)
	if err != nil {
		return api.RawBelief{}, err
	}
	record, aside, err := c.beliefs.Raw(ctx, path, name)
	return api.RawBelief{Record: record, Aside: aside}, refused(err)
}

// ChangeBeliefs is part of api.Beliefs.
func (c *Controller) ChangeBeliefs(ctx context.Context, change api.BeliefChange) error {
	path, err := c.holder(change.Path)
	if err != nil {
		return err
	}
	removed := change.Delete
	if change.Clear {
		removed, err = c.beliefs.Clear(ctx, path)
	} else {
		err = c.beliefs.Apply(ctx, belief.Step{Path: path, By: belief.Person, Set: change.Set, Delete: removed})
	}
	if err == nil {
		c.changed(path, slices.Sorted(maps.Keys(change.Set)), removed)
	}
	return refused(err)
}

// ExportBeliefs is part of api.Beliefs.
func (c *Controller) ExportBeliefs(ctx context.Context, path string) (api.BeliefExport, error) {
	path, err := c.holder(path)
	if err != nil {
		return api.BeliefExport{}, err
	}
	values, unreadable, err := c.beliefs.Export(ctx, path)
	return api.BeliefExport{Beliefs: values, Unreadable: unreadable}, refused(err)
}

// ImportBeliefs is part of api.Beliefs. The agent need not be in the file (yet).
func (c *Controller) ImportBeliefs(ctx context.Context, all api.BeliefImport) error {
	path := c.resolvePath(all.Path)
	if c.fleet().Nodes[path] != nil {
		return fmt.Errorf("%w: %s is a supervisor; agents have beliefs", api.ErrInvalid, path)
	}
	err := c.beliefs.Import(ctx, path, all.Beliefs)
	if err == nil {
		c.changed(path, slices.Sorted(maps.Keys(all.Beliefs)), nil)
	}
	return refused(err)
}

// changed tells of a change by hand. Those of agents are too many.
func (c *Controller) changed(path string, set, removed []string) {
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
	c.log.Append(event.Event{
		Type: event.BeliefChanged, Path: path, Incarnation: c.last(path), Actor: "user",
		Message: fmt.Sprintf("%s: beliefs changed by hand: %s", path, strings.Join(parts, "; ")),
	}.With(map[string]any{"set": set[:min(most, len(set))], "removed": removed[:min(most, len(removed))]}))
}
