package mcp

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/health"
)

func ready(ctx context.Context, c *caller, _ nothing) (any, error) {
	_, err := call(ctx, c, health.Ready, api.None{})
	return "noted", err
}

func heartbeat(ctx context.Context, c *caller, in health.Beat) (any, error) {
	_, err := call(ctx, c, health.Heartbeat, in)
	return "noted", err
}

// drainState tells a model what to do, as it may not know the word drain.
type drainState struct {
	Drain *drain.Info `json:"drain"`
	Note  string      `json:"note"`
}

func checkDrain(ctx context.Context, c *caller, _ nothing) (any, error) {
	check, err := call(ctx, c, drain.Check, api.None{})
	note := "take nothing new, finish what you are at, then call drain_ack"
	switch d := check.Drain; {
	case d == nil:
		note = "go on"
	case d.Finished:
		note = "you have said that you have finished; you will be stopped"
	}
	return drainState{check.Drain, note}, err
}

func ackDrain(ctx context.Context, c *caller, _ nothing) (any, error) {
	_, err := call(ctx, c, drain.Acknowledge, api.None{})
	return "noted; you will be stopped", err
}

func requestRestart(ctx context.Context, c *caller, in control.RestartRequest) (any, error) {
	_, err := call(ctx, c, control.RequestRestart, in)
	return "you will be restarted soon", err
}
