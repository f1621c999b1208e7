package mcp

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/health"
)

func ready(ctx context.Context, c *caller, _ nothing) (any, error) {
	return said("noted", c.do(ctx, func(ctx context.Context, client *api.Client) error {
		_, err := health.Ready.Call(ctx, client, api.None{})
		return err
	}))
}

func heartbeat(ctx context.Context, c *caller, in health.Beat) (any, error) {
	return said("noted", c.do(ctx, func(ctx context.Context, client *api.Client) error {
		_, err := health.Heartbeat.Call(ctx, client, in)
		return err
	}))
}

// drainState tells a model what it has to do, as it may not know the word.
type drainState struct {
	Drain *drain.Info `json:"drain"`
	Note  string      `json:"note"`
}

func checkDrain(ctx context.Context, c *caller, _ nothing) (any, error) {
	var check drain.CheckResponse
	err := c.do(ctx, func(ctx context.Context, client *api.Client) (err error) {
		check, err = drain.Check.Call(ctx, client, api.None{})
		return err
	})
	d := check.Drain
	switch {
	case d == nil:
		return drainState{d, "go on"}, err
	case d.Finished:
		return drainState{d, "you have said that you have finished; you will be stopped"}, err
	}
	return drainState{d, "take nothing new, finish what you are at, then call drain_ack"}, err
}

func ackDrain(ctx context.Context, c *caller, _ nothing) (any, error) {
	return said("noted; you will be stopped",
		c.do(ctx, func(ctx context.Context, client *api.Client) error {
			_, err := drain.Acknowledge.Call(ctx, client, api.None{})
			return err
		}))
}

func requestRestart(ctx context.Context, c *caller, in control.RestartRequest) (any, error) {
	return said("you will be restarted soon",
		c.do(ctx, func(ctx context.Context, client *api.Client) error {
			_, err := control.RequestRestart.Call(ctx, client, in)
			return err
		}))
}
