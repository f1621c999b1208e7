package shutdown

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/api"
)

// GetReport waits until all agents have been stopped because the daemon stops, and reports the result.
var GetReport = api.Route[api.None, Report]{
	Method: "GET", Path: "/farewell", For: api.People,
	ID: "farewell", Summary: "How the fleet was stopped",
	Doc: "The answer comes when all agents have been stopped because of POST /v1/down, shortly before the " +
		"daemon ends.",
	Returns: "Who did not stop in time.",
}

// Report describes how the agents of a fleet were stopped.
type Report struct {
	_ struct{} `schema:"Farewell" doc:"How the agents of a fleet were stopped."`

	Overdue []Overdue `json:"overdue" doc:"Those that had to be killed."`
}

// Overdue is an agent that did not end within its grace period. It is also the data of
// event.AgentOverdue.
type Overdue struct {
	_ struct{} `doc:"An agent that was asked to end and did not in the time that it had."`

	Path   string  `json:"path" doc:"Of the agent."`
	PID    int     `json:"pid" doc:"Of its process; 0 if that had ended when it was looked at."`
	Waited float64 `json:"waited_seconds" doc:"How long it was waited for."`
}

// Who names the agent and, if it is known, its process.
func (o Overdue) Who() string {
	if o.PID == 0 {
		return o.Path
	}
	return fmt.Sprintf("%s (process %d)", o.Path, o.PID)
}
