package health

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// The routes by which agents report their own health.
var (
	// Ready reports that the calling agent has started. It returns api.ErrConflict if the agent does
	// not report its own readiness, and no error if it is ready already.
	Ready = api.Route[api.None, api.None]{
		Method: "POST", Path: "/ready", For: api.Agents,
		ID: "ready", Summary: "The calling agent has started",
		Doc: "Only where its readiness is its own to tell (ready = { notify = true }), or when it is ready already.",
	}
	// Heartbeat reports that the calling agent is alive and, with a non-empty Beat, its progress.
	Heartbeat = api.Route[Beat, api.None]{
		Method: "POST", Path: "/heartbeat", For: api.Agents,
		ID: "heartbeat", Summary: "The calling agent lives, and is so far",
	}
)

// Beat is a heartbeat. The daemon cuts the note to api.MaxNote bytes and removes control characters.
type Beat struct {
	_        struct{} `doc:"A heartbeat. What is left away is as it was said last; an empty one is fine."`
	Progress *int64   `json:"progress,omitempty" doc:"How far the agent is, by its own measure."`
	Note     string   `json:"note,omitempty" doc:"What it does, in a line; cut to 256 bytes."`
}

// Info is the health of an agent as the API shows it.
type Info struct {
	_                struct{} `schema:"Vitals" doc:"How an agent gets on. Progress and note are its own claims."`
	Heartbeat        *float64 `json:"heartbeat_age_seconds,omitempty" minimum:"0" doc:"Since the last sign of it; not there if there was none yet."`
	HeartbeatTimeout float64  `json:"heartbeat_timeout_seconds,omitempty" minimum:"0" doc:"How long it may be silent; not there if for ever."`
	Progress         *int64   `json:"progress,omitempty" doc:"How far it is."`
	Note             string   `json:"note,omitempty" doc:"What it does."`
	ProgressAge      float64  `json:"progress_age_seconds,omitempty" minimum:"0" doc:"For how long it has claimed that, or nothing."`
	ProgressTimeout  float64  `json:"progress_timeout_seconds,omitempty" minimum:"0" doc:"For how long it may; not there if for ever."`
	Unresponsive     bool     `json:"unresponsive,omitempty" doc:"It has been silent, or at the same progress, for longer than it may."`
	Waiting          bool     `json:"waiting,omitempty" doc:"It waits for a person or a task, and may be silent meanwhile."`
}

// Register adds the handlers of the routes to a server.
func (m *Monitor) Register(s *api.Server) {
	Ready.Handle(s, func(ctx context.Context, who token.Caller, _ api.None) (none api.None, err error) {
		return none, m.Ready(ctx, who)
	})
	Heartbeat.Handle(s, func(_ context.Context, who token.Caller, b Beat) (none api.None, err error) {
		m.Heartbeat(who, b)
		return none, nil
	})
}
