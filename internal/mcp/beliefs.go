package mcp

import (
	"context"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/value"
)

type namesInput struct {
	Names []string `json:"names"`
}

func getBeliefs(ctx context.Context, c *caller, in namesInput) (any, error) {
	list, err := call(ctx, c, belief.ReadOwn, belief.OwnRequest{Names: in.Names})
	values := make(value.Named, len(list))
	for _, b := range list {
		values[b.Name] = b.Value
	}
	return values, err
}

func listBeliefs(ctx context.Context, c *caller, _ nothing) (any, error) {
	list, err := call(ctx, c, belief.ReadOwn, belief.OwnRequest{})
	type belief struct {
		Name       string `json:"name"`
		Type       string `json:"type"`
		Bytes      int    `json:"bytes"`
		Persistent bool   `json:"persistent"`
		Problem    string `json:"problem,omitempty"`
	}
	all := make([]belief, len(list))
	for i, b := range list {
		all[i] = belief{b.Name, b.Type, b.Size, b.Persistent, b.Problem}
	}
	return all, err
}

type valuesInput struct {
	Values value.Named `json:"values"`
}

func setBeliefs(ctx context.Context, c *caller, in valuesInput) (any, error) {
	_, err := call(ctx, c, belief.ChangeOwn, belief.OwnChange{Set: in.Values})
	return "kept", err
}
