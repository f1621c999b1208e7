package sagehost

import (
	"context"
	"crypto/rand"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/value"
	"github.com/coppice-dev/coppice/sage/host"
)

// Beliefs implements host.Beliefs with the store of all agents' beliefs.
type Beliefs struct {
	Store *belief.Store
	// Opened reports whether the daemon opens the beliefs of an agent before its start; nil means
	// never. It does not open those of summoned agents.
	Opened func(path string) bool
}

// OpenBeliefs returns the stored beliefs of an agent.
func (b Beliefs) OpenBeliefs(ctx context.Context, a host.Agent, names []string) (map[string]string, error) {
	opened := b.Opened != nil && b.Opened(a.Path)
	if !opened {
		declared := make([]spec.Belief, len(names))
		for i, name := range names {
			declared[i] = spec.Belief{Name: name, Persistent: true}
		}
		b.Store.Declare(a.Path, declared)
		// A belief with a damaged record loses its value, which the list of beliefs shows.
		life := belief.Life{Incarnation: a.Incarnation, ID: rand.Text()}
		if _, err := b.Store.Begin(ctx, a.Path, life); err != nil {
			return nil, err
		}
	}
	all, err := b.Store.Get(ctx, a.Path, a.Incarnation)
	if err != nil {
		if !opened {
			b.Store.End(a.Path, a.Incarnation)
		}
		return nil, err
	}
	values := map[string]string{}
	for _, one := range all {
		if one.Origin == belief.Kept {
			values[one.Name] = string(one.Value)
		}
	}
	return values, nil
}

// SaveBeliefs stores values of an agent.
func (b Beliefs) SaveBeliefs(ctx context.Context, a host.Agent, values map[string]string) error {
	step := belief.Step{Path: a.Path, By: a.Incarnation, Set: value.Named{}}
	for name, text := range values {
		v, err := value.Parse([]byte(text))
		if err != nil {
			return err
		}
		step.Set[name] = v
	}
	return b.Store.Apply(ctx, step)
}

// CloseBeliefs ends the incarnation in the store.
func (b Beliefs) CloseBeliefs(a host.Agent) { b.Store.End(a.Path, a.Incarnation) }
