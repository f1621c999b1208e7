package show

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/status"
)

// The states that more than paint depends on, as the daemon spells them.
const (
	StateRunning   = "running"
	StateStarting  = "starting"
	StateStopping  = "stopping"
	StateStopped   = "stopped"
	StateWaiting   = "waiting"
	stateSuspended = "suspended"
	stateDegraded  = status.Degraded
)

// What is shown instead of the state of an agent that runs, where it matters more.
const (
	Draining   = "draining"    // it is to finish
	NeedsInput = "needs input" // it waits for a person
	CrashLoop  = "crash loop"  // it fails again and again
	GivenUp    = "given up"    // its limit was reached
)

// State is the state of a node as people see it.
func State(n status.Node) string {
	switch {
	case n.Aide != nil && n.State == StateStopped:
		return n.Aide.State // idle, done, stopped
	case n.Loop == status.CrashLoop:
		return CrashLoop
	case n.State != StateRunning:
	case n.NeedsInput != nil:
		return NeedsInput
	case n.Drain != nil:
		return Draining
	}
	return StateWords(n.State)
}

// PaintState paints a state by what it asks of the reader.
func PaintState(p terminal.Paint, state, text string) string {
	switch StateWords(state) {
	case StateRunning:
		return p.Green(text)
	case StateStarting, StateStopping, "restarting", "waiting", Draining, NeedsInput, stateDegraded:
		return p.Yellow(text)
	case "quarantined", GivenUp, "paused", CrashLoop, "restart loop", "rejected":
		return p.Red(text)
	}
	return p.Dim(text)
}

// StateWords spells a state of the API for people.
func StateWords(state string) string { return strings.ReplaceAll(state, "_", " ") }
