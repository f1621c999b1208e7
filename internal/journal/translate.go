package journal

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/supervisor"
)

// Nested reports whether an event is that of a nested supervisor about itself.
// Its parent reports the same, with the reason.
func Nested(e supervisor.Event) bool {
	switch e.(type) {
	case supervisor.SupervisorStarted, supervisor.SupervisorStopping, supervisor.SupervisorEnded:
		return strings.Contains(e.Header().Supervisor, "/")
	}
	return false
}

// Translate returns an event of a supervisor as the log has it, and its text
// without the path.
func Translate(e supervisor.Event) (entry event.Event, text string) {
	h, t := e.Header(), translationOf(e)
	kind := t.agent
	if h.Type == supervisor.SupervisorType || kind == "" {
		kind = t.super
	}
	entry = event.Event{
		Time: h.Time, Type: kind, Path: h.Path(), Incarnation: h.Incarnation,
		Actor: "supervisor", Message: h.Path() + " " + t.text,
	}
	if t.data != nil {
		entry = entry.With(t.data)
	}
	return entry, t.text
}

// translation is the form of an event of a supervisor in the log and in text.
type translation struct {
	agent event.Type // "" where it is never about an agent
	super event.Type
	data  any // of package event; nil for none
	text  string
}

// translationOf translates every type of event.
func translationOf(e supervisor.Event) translation {
	switch e := e.(type) {
	case supervisor.SupervisorStarted:
		return translation{"", event.SupervisorStarted, event.Started{}, "started"}
	case supervisor.SupervisorStopping:
		return translation{"", event.SupervisorStopping, causeOf(e.Reason), stoppingText(e)}
	case supervisor.SupervisorEnded:
		return translation{"", event.SupervisorEnded, agent.EventEnd(e.Exit), "ended: " + ExitText(e.Exit)}
	case supervisor.ChildStarted:
		return started(e)
	case supervisor.ChildStartFailed:
		if e.Decision.Reason == supervisor.ReasonRetry {
			return waits(event.Exited{End: event.End{Error: errorText(e.Err)}, Decision: decisionOf(e.Decision)}, e.Err)
		}
		return translation{
			event.AgentStartFailed, event.SupervisorStartFailed,
			event.StartFailed{
				Error: errorText(e.Err), Decision: decisionOf(e.Decision), StartSeconds: e.Took.Seconds(),
			},
			fmt.Sprintf("failed to start: %v; %s", e.Err, decisionText(e.Decision)),
		}
	case supervisor.ChildIgnored:
		return translation{event.AgentIgnored, event.SupervisorIgnored, nil, "not needed now"}
	case supervisor.ChildExited:
		return exited(e)
	case supervisor.ChildStopping:
		text := "stopping"
		if e.Reason != supervisor.ReasonShutdown { // its supervisor has given the reason
			text = fmt.Sprintf("stopping: %v", e.Reason)
		}
		return translation{event.AgentStopping, event.SupervisorStopping, causeOf(e.Reason), text}
	case supervisor.ChildStopped:
		text := "stopped"
		if !e.Exit.Clean() {
			text += ": " + ExitText(e.Exit)
		}
		data := event.Stopped{
			End: agent.EventEnd(e.Exit), Cause: causeOf(e.Reason), UptimeSeconds: e.Uptime.Seconds(),
		}
		return translation{event.AgentStopped, event.SupervisorStopped, data, text}
	case supervisor.ChildChanged:
		return translation{
			event.AgentChanged, event.SupervisorChanged,
			event.Changed{State: StateAfter(e), Cause: causeOf(e.Reason)},
			fmt.Sprintf("%s: %v", StateAfter(e), e.Reason),
		}
	case supervisor.ChildAbandoned:
		return translation{
			event.AgentAbandoned, event.SupervisorAbandoned,
			event.Abandoned{WaitedSeconds: e.Waited.Seconds()},
			"abandoned: did not stop within " + timespan.Short(e.Waited),
		}
	case supervisor.ChildReturned:
		return translation{
			event.AgentReturned, event.SupervisorReturned, agent.EventEnd(e.Exit),
			fmt.Sprintf("abandoned incarnation %d has ended: %s", e.Incarnation, ExitText(e.Exit)),
		}
	case supervisor.ChildMisbehaved:
		return translation{
			event.AgentMisbehaved, event.SupervisorMisbehaved,
			event.Misbehaved{Error: errorText(e.Err)}, fmt.Sprintf("stopping it panicked: %v", e.Err),
		}
	case supervisor.LimitReached:
		return limitReached(e)
	case supervisor.LimitLifted:
		return translation{
			event.AgentReleased, event.SupervisorReleased, causeOf(e.Reason),
			fmt.Sprintf("may start again: %v", e.Reason),
		}
	case supervisor.EventsLost:
		return translation{
			event.EventsLost, event.EventsLost, event.Lost{Count: e.N},
			fmt.Sprintf("%d events were lost: too many at once", e.N),
		}
	}
	// Not reached: the set is closed, and a test covers all of it.
	return translation{event.Unnamed, event.Unnamed, nil, e.String()}
}

func started(e supervisor.ChildStarted) translation {
	t := translation{event.AgentStarted, event.SupervisorStarted,
		event.Started{Restart: e.Restart, StartSeconds: e.Took.Seconds()}, "started"}
	switch {
	case e.Adopted:
		text := fmt.Sprintf("taken over, incarnation %d", e.Incarnation)
		return translation{event.AgentAdopted, event.SupervisorAdopted, nil, text}
	case e.Restart:
		t.text = fmt.Sprintf("restarted, incarnation %d", e.Incarnation)
	}
	return t
}

// waits translates the end of a child that has said when to try again.
func waits(data event.Exited, err error) translation {
	text := "waits"
	if e, ok := errors.AsType[*supervisor.RetryError](err); ok && e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return translation{event.AgentWaiting, event.SupervisorWaiting, data, text}
}

func exited(e supervisor.ChildExited) translation {
	if e.Decision.Reason == supervisor.ReasonRetry {
		return waits(event.Exited{
			End: agent.EventEnd(e.Exit), Decision: decisionOf(e.Decision), UptimeSeconds: e.Uptime.Seconds(),
		}, e.Exit.Err)
	}
	t := translation{
		agent: event.AgentCrashed, super: event.SupervisorCrashed,
		data: event.Exited{
			End: agent.EventEnd(e.Exit), Decision: decisionOf(e.Decision), UptimeSeconds: e.Uptime.Seconds(),
		},
		text: fmt.Sprintf("ended after %s: %s; %s", timespan.Short(e.Uptime), ExitText(e.Exit),
			decisionText(e.Decision)),
	}
	switch {
	case e.Exit.Clean():
		t.agent, t.super = event.AgentExited, event.SupervisorExited
	case e.Exit.Kind == supervisor.Lost:
		t.agent, t.super = event.AgentLost, event.SupervisorLost
	}
	return t
}

func limitReached(e supervisor.LimitReached) translation {
	t := translation{
		agent: event.AgentLimitReached, super: event.SupervisorLimitReached,
		data: event.LimitReached{End: agent.EventEnd(e.Exit), Limit: e.Limit.String(), Until: e.Until},
		text: fmt.Sprintf("limit reached (%v)", e.Limit),
	}
	if !e.Until.IsZero() {
		t.text += ", until " + e.Until.Format(time.TimeOnly)
	}
	// Whatever was counted.
	if e.Limit.OnLimit == supervisor.GiveUp && errors.Is(e.Exit.Err, supervisor.ErrDoNotRestart) {
		t.text = "given up"
	}
	if e.Exit.Err != nil { // of an order that starts it too often, no other event gives the reason
		t.text += ": " + ExitText(e.Exit)
	}
	switch e.Limit.OnLimit {
	case supervisor.Quarantine:
		t.agent, t.super = event.AgentQuarantined, event.SupervisorQuarantined
	case supervisor.GiveUp:
		t.agent, t.super = event.AgentGaveUp, event.SupervisorGaveUp
	case supervisor.Pause:
		t.agent, t.super = event.SupervisorPaused, event.SupervisorPaused
	}
	return t
}

func stoppingText(e supervisor.SupervisorStopping) string {
	switch {
	case e.Err != nil:
		return "stopping everything: " + ErrorText(e.Err)
	case e.Reason == supervisor.ReasonShutdown:
		return "stopping everything"
	}
	return fmt.Sprintf("stopping everything: %v", e.Reason)
}

// decisionText describes a decision and its reason.
func decisionText(d supervisor.Decision) string {
	if d.Action == supervisor.EndSelf {
		return d.Reason.String()
	}
	return d.String()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func causeOf(r supervisor.Reason) event.Cause { return event.Cause{Reason: r.String()} }

func decisionOf(d supervisor.Decision) event.Decision {
	return event.Decision{
		Decision: d.Action.String(), Cause: causeOf(d.Reason), DelaySeconds: d.Delay.Seconds(), Attempt: d.Attempt,
	}
}
