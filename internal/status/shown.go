package status

import (
	"strings"
	"time"
)

// States of nodes in the API that more than colours depend on.
const (
	StateRunning   = "running"
	StateStarting  = "starting"
	StateStopping  = "stopping"
	StateStopped   = "stopped"
	StateWaiting   = "waiting"
	StateSuspended = "suspended"
)

// States that are shown to people in place of those of the API, where they matter more.
const (
	ShownDraining   = "draining"    // finishing its work
	ShownNeedsInput = "needs input" // waiting for a person
	ShownCrashLoop  = "crash loop"  // fails repeatedly
	ShownGivenUp    = "given up"    // its limit was reached
)

// Shown returns the state of a node to show to people.
func (n Node) Shown() string {
	switch {
	case n.Aide != nil && n.State == StateStopped:
		return n.Aide.State // idle, done, stopped
	case n.Loop == CrashLoop:
		return ShownCrashLoop
	case n.State != StateRunning:
	case n.NeedsInput != nil:
		return ShownNeedsInput
	case n.Drain != nil:
		return ShownDraining
	}
	return StateWords(n.State)
}

// StateWords returns a state of the API as words.
func StateWords(state string) string { return strings.ReplaceAll(state, "_", " ") }

// Tone says how a state is shown to people.
type Tone string

// The tones of states.
const (
	Good  Tone = "good"  // it works
	Busy  Tone = "busy"  // it starts, stops or waits
	Ask   Tone = "ask"   // it waits for a person
	Bad   Tone = "bad"   // it does not work
	Quiet Tone = "quiet" // it is at rest
)

// ToneOf returns the tone of a state of the API or of Shown.
func ToneOf(state string) Tone {
	switch StateWords(state) {
	case StateRunning:
		return Good
	case ShownNeedsInput:
		return Ask
	case StateStarting, StateStopping, "restarting", StateWaiting, ShownDraining, Degraded:
		return Busy
	case "quarantined", ShownGivenUp, "paused", ShownCrashLoop, "restart loop", Rejected:
		return Bad
	}
	return Quiet
}

// Since returns when the node entered its state: its start if it runs, otherwise its last event. It
// is zero if that is unknown.
func (x Explanation) Since() time.Time {
	switch {
	case x.Node.Shown() == ShownNeedsInput:
		return x.Node.NeedsInput.At
	case x.Node.Loop != "" && x.Node.State != StateRunning: // the loop began before the last exit
		return time.Time{}
	case (x.Node.State == StateRunning || x.Node.State == StateStarting) && x.Node.StartedAt != nil:
		return *x.Node.StartedAt
	case len(x.History) > 0:
		return x.History[len(x.History)-1].Time
	}
	return time.Time{}
}
