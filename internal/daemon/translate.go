package daemon

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// Nested reports whether e is what a nested supervisor says of itself. Its
// parent says the same of it, with the reason.
func Nested(e supervisor.Event) bool {
	switch e.(type) {
	case supervisor.SupervisorStarted, supervisor.SupervisorStopping, supervisor.SupervisorEnded:
		return strings.Contains(e.Header().Supervisor, "/")
	}
	return false
}

// Classify returns the type of an event in the log, and its data.
func Classify(e supervisor.Event) (event.Type, map[string]any) {
	of := func(agent, sup event.Type) event.Type {
		if e.Header().Type == supervisor.SupervisorType {
			return sup
		}
		return agent
	}
	switch e := e.(type) {
	case supervisor.SupervisorStarted:
		return event.SupervisorStarted, map[string]any{"restart": false}
	case supervisor.SupervisorStopping:
		return event.SupervisorStopping, map[string]any{"reason": e.Reason.String()}
	case supervisor.SupervisorEnded:
		return event.SupervisorEnded, exitData(e.Exit, nil)
	case supervisor.ChildStarted:
		if e.Adopted {
			return of(event.AgentAdopted, event.SupervisorAdopted), nil
		}
		return of(event.AgentStarted, event.SupervisorStarted), map[string]any{"restart": e.Restart}
	case supervisor.ChildStartFailed:
		data := decisionData(e.Decision, map[string]any{"error": errorText(e.Err)})
		return of(event.AgentStartFailed, event.SupervisorStartFailed), data
	case supervisor.ChildIgnored:
		return of(event.AgentIgnored, event.SupervisorIgnored), nil
	case supervisor.ChildExited:
		data := exitData(e.Exit, decisionData(e.Decision, map[string]any{"uptime_seconds": e.Uptime.Seconds()}))
		switch {
		case e.Exit.Clean():
			return of(event.AgentExited, event.SupervisorExited), data
		case e.Exit.Kind == supervisor.Lost:
			return of(event.AgentLost, event.SupervisorLost), data
		}
		return of(event.AgentCrashed, event.SupervisorCrashed), data
	case supervisor.ChildStopping:
		return of(event.AgentStopping, event.SupervisorStopping), map[string]any{"reason": e.Reason.String()}
	case supervisor.ChildStopped:
		data := exitData(e.Exit, map[string]any{"reason": e.Reason.String()})
		return of(event.AgentStopped, event.SupervisorStopped), data
	case supervisor.ChildChanged:
		data := map[string]any{"state": StateAfter(e), "reason": e.Reason.String()}
		return of(event.AgentChanged, event.SupervisorChanged), data
	case supervisor.ChildAbandoned:
		data := map[string]any{"waited_seconds": e.Waited.Seconds()}
		return of(event.AgentAbandoned, event.SupervisorAbandoned), data
	case supervisor.ChildReturned:
		return of(event.AgentReturned, event.SupervisorReturned), exitData(e.Exit, nil)
	case supervisor.ChildMisbehaved:
		return of(event.AgentMisbehaved, event.SupervisorMisbehaved), map[string]any{"error": errorText(e.Err)}
	case supervisor.LimitReached:
		data := exitData(e.Exit, map[string]any{"limit": e.Limit.String()})
		if !e.Until.IsZero() {
			data["until"] = e.Until
		}
		switch e.Limit.Then {
		case supervisor.Quarantine:
			return of(event.AgentQuarantined, event.SupervisorQuarantined), data
		case supervisor.GiveUp:
			return of(event.AgentGaveUp, event.SupervisorGaveUp), data
		case supervisor.Pause:
			return event.SupervisorPaused, data
		}
		return of(event.AgentLimitReached, event.SupervisorLimitReached), data
	case supervisor.LimitLifted:
		return of(event.AgentReleased, event.SupervisorReleased), map[string]any{"reason": e.Reason.String()}
	case supervisor.EventsLost:
		return event.EventsLost, map[string]any{"count": e.N}
	}
	return event.Unnamed, nil // the set is closed: a test walks through all of it
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func decisionData(d supervisor.Decision, data map[string]any) map[string]any {
	data["decision"], data["reason"] = d.Action.String(), d.Reason.String()
	if d.Delay > 0 {
		data["delay_seconds"] = d.Delay.Seconds()
	}
	if d.Attempt > 0 {
		data["attempt"] = d.Attempt
	}
	return data
}

// postMortemLines is how many of its last lines are told with an end.
const postMortemLines = 10

func exitData(x supervisor.Exit, data map[string]any) map[string]any {
	if data == nil {
		data = map[string]any{}
	}
	data["exit"] = x.Kind.String()
	var last *parted
	if errors.As(x.Err, &last) {
		last.tell(data)
	}
	if x.Err != nil && !(x.Clean() && last != nil) {
		data["error"] = x.Err.Error()
	}
	var zombie *zombieError
	if errors.As(x.Err, &zombie) && len(zombie.output) > 0 {
		data["last_output"] = zombie.output
	}
	var process *proc.ExitError
	if !errors.As(x.Err, &process) {
		return data
	}
	if process.Signal != 0 {
		data["signal"] = unix.SignalName(process.Signal)
	} else {
		data["code"] = process.Code
	}
	if last := process.LastOutput; len(last) > 0 && zombie == nil {
		last = slices.Clone(last[max(0, len(last)-postMortemLines):])
		for i := range last {
			last[i] = proc.Plain(last[i])
		}
		data["last_output"] = last
	}
	return data
}
