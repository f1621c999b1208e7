package cli

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/status"
)

// The states that more than paint depends on, as the daemon spells them.
const (
	stateRunning   = "running"
	stateStarting  = "starting"
	stateStopping  = "stopping"
	stateStopped   = "stopped"
	stateWaiting   = "waiting"
	stateSuspended = "suspended"
	stateDegraded  = status.Degraded
)

// What is shown instead of the state of an agent that runs, where it matters more.
const (
	draining   = "draining"    // it is to finish
	needsInput = "needs input" // it waits for a person
	crashLoop  = "crash loop"  // it fails again and again
	givenUp    = "given up"    // its limit was reached
)

// shownState is the state of a node as people see it.
func shownState(n status.Node) string {
	switch {
	case n.Aide != nil && n.State == stateStopped:
		return n.Aide.State // idle, done, stopped
	case n.Loop == status.CrashLoop:
		return crashLoop
	case n.State != stateRunning:
	case n.NeedsInput != nil:
		return needsInput
	case n.Drain != nil:
		return draining
	}
	return stateWords(n.State)
}

// state paints a state by what it asks of the reader.
func (p paint) state(state, text string) string {
	switch stateWords(state) {
	case stateRunning:
		return p.green(text)
	case stateStarting, stateStopping, "restarting", "waiting", draining, needsInput, stateDegraded:
		return p.yellow(text)
	case "quarantined", givenUp, "paused", crashLoop, "restart loop", "rejected":
		return p.red(text)
	}
	return p.dim(text)
}

// stateWords spells a state of the API for people.
func stateWords(state string) string { return strings.ReplaceAll(state, "_", " ") }
