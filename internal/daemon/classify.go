package daemon

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

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

// Classify is the type of an event in the log, and its data. The names are those
// of package event.
func Classify(e supervisor.Event) (kind string, data map[string]any) {
	h := e.Header()
	who := "agent"
	if h.Type == supervisor.SupervisorType {
		who = "supervisor"
	}
	switch e := e.(type) {
	case supervisor.SupervisorStarted:
		return "supervisor.started", map[string]any{"restart": false}
	case supervisor.SupervisorStopping:
		return "supervisor.stopping", map[string]any{"reason": e.Reason.String()}
	case supervisor.SupervisorEnded:
		return "supervisor.ended", exitData(e.Exit, nil)
	case supervisor.ChildStarted:
		if e.Adopted {
			return who + ".adopted", nil
		}
		return who + ".started", map[string]any{"restart": e.Restart}
	case supervisor.ChildStartFailed:
		return who + ".start_failed", decisionData(e.Decision, map[string]any{"error": e.Err.Error()})
	case supervisor.ChildIgnored:
		return who + ".ignored", nil
	case supervisor.ChildExited:
		data := decisionData(e.Decision, map[string]any{"uptime_seconds": e.Uptime.Seconds()})
		switch {
		case e.Exit.Clean():
			return who + ".exited", exitData(e.Exit, data)
		case e.Exit.Kind == supervisor.Lost:
			return who + ".lost", exitData(e.Exit, data)
		}
		return who + ".crashed", exitData(e.Exit, data)
	case supervisor.ChildStopping:
		return who + ".stopping", map[string]any{"reason": e.Reason.String()}
	case supervisor.ChildStopped:
		return who + ".stopped", exitData(e.Exit, map[string]any{"reason": e.Reason.String()})
	case supervisor.ChildChanged:
		return who + ".changed", map[string]any{"state": e.State.String(), "reason": e.Reason.String()}
	case supervisor.ChildAbandoned:
		return who + ".abandoned", map[string]any{"waited_seconds": e.Waited.Seconds()}
	case supervisor.ChildReturned:
		return who + ".returned", exitData(e.Exit, nil)
	case supervisor.LimitReached:
		data := exitData(e.Exit, map[string]any{"limit": e.Limit.String()})
		if !e.Until.IsZero() {
			data["until"] = e.Until
		}
		switch e.Limit.Then {
		case supervisor.Quarantine:
			return who + ".quarantined", data
		case supervisor.GiveUp:
			return who + ".gave_up", data
		case supervisor.Pause:
			return "supervisor.paused", data
		}
		return who + ".limit_reached", data
	case supervisor.LimitLifted:
		return who + ".released", map[string]any{"reason": e.Reason.String()}
	case supervisor.EventsLost:
		return "events.lost", map[string]any{"count": e.N}
	}
	return "unknown", nil
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
