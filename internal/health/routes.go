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
		ID: "ready", Summary: "Report that the calling agent has started",
		Doc: "Only for an agent that reports its own readiness (ready = { notify = true }), or that is ready already.",
	}
	// Heartbeat reports that the calling agent is alive and, with a non-empty Beat, its progress.
	Heartbeat = api.Route[Beat, api.None]{
		Method: "POST", Path: "/heartbeat", For: api.Agents,
		ID: "heartbeat", Summary: "Report that the calling agent is alive, and its progress",
	}
)

// Beat is a heartbeat. The daemon cuts the note to api.MaxNote bytes and removes control characters.
type Beat struct {
	_        struct{} `doc:"A heartbeat. A field that is left out keeps its last value; an empty heartbeat is valid."`
	Progress *int64   `json:"progress,omitempty" doc:"The progress of the agent, by its own measure."`
	Note     string   `json:"note,omitempty" doc:"What the agent is doing, in one line; cut to 256 bytes."`
}

// Info is the health of an agent as the API shows it.
type Info struct {
	_                struct{} `schema:"Vitals" doc:"The health of an agent. Progress and note are reported by the agent itself."`
	Heartbeat        *float64 `json:"heartbeat_age_seconds,omitempty" minimum:"0" doc:"Time since the last sign of life; missing if there was none yet."`
	HeartbeatTimeout float64  `json:"heartbeat_timeout_seconds,omitempty" minimum:"0" doc:"How long it may be silent; missing if there is no limit."`
	Progress         *int64   `json:"progress,omitempty" doc:"The progress that it has reported last."`
	Note             string   `json:"note,omitempty" doc:"The note that it has reported last."`
	ProgressAge      float64  `json:"progress_age_seconds,omitempty" minimum:"0" doc:"Time since progress or note changed."`
	ProgressTimeout  float64  `json:"progress_timeout_seconds,omitempty" minimum:"0" doc:"How long they may stay the same; missing if there is no limit."`
	Unresponsive     bool     `json:"unresponsive,omitempty" doc:"It has exceeded one of its timeouts."`
	Waiting          bool     `json:"waiting,omitempty" doc:"It waits for a person or a task, during which it may be silent."`
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
