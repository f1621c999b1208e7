package mcp

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/value"
)

type namesInput struct {
	Names []string `json:"names"`
}

// beliefs asks for those that are named, or all.
func (c *caller) beliefs(ctx context.Context, names []string) (list []belief.Info, err error) {
	err = c.do(ctx, func(ctx context.Context, client *api.Client) (err error) {
		list, err = belief.ReadOwn.Call(ctx, client, belief.OwnRequest{Names: names})
		return err
	})
	return list, err
}

func getBeliefs(ctx context.Context, c *caller, in namesInput) (any, error) {
	list, err := c.beliefs(ctx, in.Names)
	values := make(value.Named, len(list))
	for _, b := range list {
		values[b.Name] = b.Value
	}
	return values, err
}

func listBeliefs(ctx context.Context, c *caller, _ nothing) (any, error) {
	list, err := c.beliefs(ctx, nil)
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
	return said("kept", c.do(ctx, func(ctx context.Context, client *api.Client) error {
		_, err := belief.ChangeOwn.Call(ctx, client, belief.OwnChange{Set: in.Values})
		return err
	}))
}
