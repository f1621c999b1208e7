package aidefile

import (
	"slices"

	"github.com/coppice-dev/coppice/supervisor"
)

// State is the state of an agent as its triggers see it.
type State uint8

const (
	Idle       State = iota // waits for a trigger
	Done                    // has run and waits; only a person starts it
	Running                 // a run is in progress, starting or stopping
	backingOff              // the next run follows after a delay
	Waiting                 // the run is made again when the agent's quota allows it
	GivenUp                 // max_restarts is reached
	Stopped                 // by a person, until a person starts it
	Held                    // its supervisor does not run, is starting, or is paused
)

func (s State) String() string {
	return [...]string{"idle", "done", "running", "backing off", "waiting", "given up", "stopped", "held"}[s]
}

// StateOf returns the state of an agent from its state in the supervisor. ran is set if it has
// had a run.
func StateOf(s supervisor.State, ran bool, triggers []Trigger) State {
	switch s {
	case supervisor.Stopped:
		if ran && onlyManual(triggers) {
			return Done
		}
		return Idle
	case supervisor.Starting, supervisor.Running, supervisor.Stopping:
		return Running
	case supervisor.Restarting:
		return backingOff
	case supervisor.GivenUp:
		return GivenUp
	case supervisor.Suspended:
		return Stopped
	}
	return Held
}

func onlyManual(triggers []Trigger) bool {
	return !slices.ContainsFunc(triggers, func(t Trigger) bool { return t.Kind != Manual })
}

// Decision is the decision whether a trigger starts a run, with its reason.
type Decision struct {
	Run    bool
	Reason string
}

// Decide decides whether a trigger starts a run of an agent in a state.
func Decide(s State) Decision {
	switch s {
	case Idle, Done:
		return Decision{true, "it was idle"}
	case GivenUp:
		return Decision{true, "it was given up: it runs once for each trigger until it succeeds or is reset"}
	case Running:
		return Decision{Reason: "the run before it is still in progress"}
	case backingOff:
		return Decision{Reason: "a restart is pending"}
	case Waiting:
		return Decision{Reason: "it waits for its quota, to make its run again"}
	case Stopped:
		return Decision{Reason: "it was stopped by hand, until it is started by hand"}
	}
	return Decision{Reason: "its supervisor is not ready to run it"}
}
