package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/supervisor"
)

// describe says in a line what happened; "" if it is not worth one.
func describe(e supervisor.Event) string {
	if daemon.Nested(e) {
		return ""
	}
	switch e := e.(type) {
	case supervisor.SupervisorStarted:
		return "started"
	case supervisor.SupervisorStopping:
		switch {
		case e.Err != nil:
			return "stopping everything: " + errorText(e.Err)
		case e.Reason == supervisor.ReasonShutdown:
			return "stopping everything"
		}
		return fmt.Sprintf("stopping everything: %v", e.Reason)
	case supervisor.SupervisorEnded:
		return ""
	case supervisor.ChildStarted:
		if e.Adopted {
			return fmt.Sprintf("taken over, incarnation %d", e.Incarnation)
		}
		if e.Restart {
			return fmt.Sprintf("restarted, incarnation %d", e.Incarnation)
		}
		return "started"
	case supervisor.ChildStartFailed:
		return fmt.Sprintf("failed to start: %v; %s", e.Err, decisionText(e.Decision))
	case supervisor.ChildIgnored:
		return "not needed now"
	case supervisor.ChildExited:
		return fmt.Sprintf("ended after %s: %s; %s", short(e.Uptime), exitText(e.Exit), decisionText(e.Decision))
	case supervisor.ChildStopping:
		if e.Reason == supervisor.ReasonShutdown { // its supervisor has said why
			return "stopping"
		}
		return fmt.Sprintf("stopping: %v", e.Reason)
	case supervisor.ChildStopped:
		if e.Exit.Clean() {
			return "stopped"
		}
		return "stopped: " + exitText(e.Exit)
	case supervisor.ChildChanged:
		return fmt.Sprintf("%s: %v", daemon.StateAfter(e), e.Reason)
	case supervisor.ChildAbandoned:
		return fmt.Sprintf("abandoned: did not stop within %s", short(e.Waited))
	case supervisor.ChildReturned:
		return fmt.Sprintf("abandoned incarnation %d has ended: %s", e.Incarnation, exitText(e.Exit))
	case supervisor.LimitReached:
		if !e.Until.IsZero() {
			return fmt.Sprintf("limit reached (%v), until %s", e.Limit, e.Until.Format(time.TimeOnly))
		}
		return fmt.Sprintf("limit reached (%v)", e.Limit)
	case supervisor.LimitLifted:
		return fmt.Sprintf("may start again: %v", e.Reason)
	case supervisor.EventsLost:
		return fmt.Sprintf("%d events were not shown: too many at once", e.N)
	}
	return e.String()
}

// exitText is an exit in as many words as it needs.
func exitText(x supervisor.Exit) string {
	if x.Err == nil {
		return x.String()
	}
	return errorText(x.Err)
}

// errorText leaves out of a limit what its own event has said already.
func errorText(err error) string {
	var limit *supervisor.LimitError
	if errors.As(err, &limit) {
		return fmt.Sprintf("limit reached by %s (%s)", limit.Child, exitText(limit.Exit))
	}
	return err.Error()
}

// decisionText says what comes next, and why.
func decisionText(d supervisor.Decision) string {
	if d.Action == supervisor.EndSelf {
		return d.Reason.String()
	}
	return d.String()
}

// short is a duration to two or three digits, cut off rather than rounded.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Truncate(time.Millisecond).String()
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
