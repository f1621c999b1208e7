package sagehost

import (
	"context"
	"crypto/rand"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/value"
	"github.com/coppice-dev/coppice/sage/host"
)

// Beliefs implements host.Beliefs with a store.
type Beliefs struct{ Store *belief.Store }

// OpenBeliefs returns the stored beliefs of an agent.
func (b Beliefs) OpenBeliefs(ctx context.Context, a host.Agent, names []string) (map[string]string, error) {
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
	all, err := b.Store.Get(ctx, a.Path, a.Incarnation)
	if err != nil {
		b.Store.End(a.Path, a.Incarnation)
		return nil, err
	}
	return belief.KeptOf(all), nil
}

// SaveBeliefs stores values of an agent.
func (b Beliefs) SaveBeliefs(ctx context.Context, a host.Agent, values map[string]string) error {
	set, err := value.ParseAll(values)
	if err != nil {
		return err
	}
	return b.Store.Apply(ctx, belief.Step{Path: a.Path, By: a.Incarnation, Set: set})
}

// CloseBeliefs ends the incarnation in the store.
func (b Beliefs) CloseBeliefs(a host.Agent) { b.Store.End(a.Path, a.Incarnation) }
