package shutdown

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/api"
)

// GetReport waits until all agents have been stopped because the daemon stops, and reports the result.
var GetReport = api.Route[api.None, Report]{
	Method: "GET", Path: "/farewell", For: api.People,
	ID: "farewell", Summary: "Report of the shutdown",
	Doc: "The answer comes when all agents have been stopped because of POST /v1/down, shortly before the daemon " +
		"exits.",
	Returns: "The agents that did not stop in time.",
}

// Report describes how the agents of a fleet were stopped.
type Report struct {
	_ struct{} `schema:"Farewell" doc:"How the agents of a fleet were stopped."`

	Overdue []Overdue `json:"overdue" doc:"The agents that had to be killed."`
}

// Overdue is an agent that did not end within its grace period. It is also the data of
// event.AgentOverdue.
type Overdue struct {
	_ struct{} `doc:"An agent that did not end within its grace period."`

	Path   string  `json:"path" doc:"The agent."`
	PID    int     `json:"pid" doc:"Its process when it was asked to stop; 0 if that is not known."`
	Waited float64 `json:"waited_seconds" doc:"The time from the request to stop until it ended or was killed."`
}

// Who names the agent and, if it is known, its process.
func (o Overdue) Who() string {
	if o.PID == 0 {
		return o.Path
	}
	return fmt.Sprintf("%s (process %d)", o.Path, o.PID)
}
