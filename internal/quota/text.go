package quota

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// WaitError says for which pool an agent waits, and why. It is the cause of a supervisor.RetryError.
type WaitError struct {
	Pool Pool
	Next string // the account with which it goes on at once; empty if it waits
}

func (e *WaitError) Error() string {
	p, text := e.Pool, e.Pool.what()
	switch {
	case e.Next != "":
		return text + "; goes on with account " + e.Next
	case p.State == Stopped:
		return text + "; waits until a person has acted: coppice quota resume " + p.Name
	case p.State == Probing:
		return text + "; waits until " + p.Canary + " was served, which tries first"
	case p.Reset.IsZero():
		return text + "; waits until " + clock(p.Until) + " to try again (no reset is known)"
	}
	return fmt.Sprintf("%s; waits until %s (reset reported by %s)", text, clock(p.Until), p.reporter())
}

// what says what has closed the pool.
func (p *Pool) what() string {
	return fmt.Sprintf("%s: %s", strings.ReplaceAll(string(p.Obstacle), "_", " "), p.Reason)
}

// clock returns a time for people, with its day if that is not today.
func clock(t time.Time) string {
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// reporter names what has reported a reset.
func (p *Pool) reporter() string {
	switch {
	case p.CLI == "" || p.CLI == agentcli.Plain || p.CLI == agentcli.ACP:
		return "the agent"
	case p.ResetFrom == agentcli.FromAccount:
		return string(p.CLI) + " for its account"
	}
	return string(p.CLI)
}
