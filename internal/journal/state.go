package journal

import (
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/supervisor"
)

// This file tells a stop by hand from a suspension. For the supervisor library both are
// Suspended, with the reason that the call has given: a stop is final until a start, a
// suspension lasts until a resume.

// StateOf returns the state of a child and the reason for it, as people know them. Records
// of earlier versions have no reason that tells a stop from a suspension: what they hold
// was stopped.
func StateOf(s supervisor.State, why supervisor.Reason) (state, reason string) {
	switch {
	case s == supervisor.Paused && why == supervisor.ReasonProbe: // its supervisor was resumed
		return supervisor.Waiting.String(), why.String()
	case s == supervisor.Restarting && why == supervisor.ReasonRetry: // not for a backoff
		return supervisor.Waiting.String(), why.String()
	case s != supervisor.Suspended, why == supervisor.ReasonSuspended:
		return s.String(), why.String()
	case why == supervisor.ReasonDrained:
		return supervisor.Stopped.String(), why.String()
	}
	return supervisor.Stopped.String(), supervisor.ReasonStopped.String()
}

// StateAfter returns the state in which a call has put a child, as people know it.
func StateAfter(e supervisor.ChildChanged) string {
	state, _ := StateOf(e.State, e.Reason)
	return state
}

// StoppedByHand reports whether only a start brings a child back.
func StoppedByHand(s supervisor.State, why supervisor.Reason) bool {
	return s == supervisor.Suspended && why != supervisor.ReasonSuspended
}

// Suspended reports whether a resume brings a child back.
func Suspended(s supervisor.State, why supervisor.Reason) bool {
	return s == supervisor.Suspended && why == supervisor.ReasonSuspended
}

// ExitText describes an exit in as few words as it needs.
func ExitText(x supervisor.Exit) string {
	if x.Err == nil {
		return x.String()
	}
	return ErrorText(x.Err)
}

// ErrorText leaves out of a limit what the event of the limit has said.
func ErrorText(err error) string {
	var limit *supervisor.LimitError
	if errors.As(err, &limit) {
		return fmt.Sprintf("limit reached by %s (%s)", limit.Child, ExitText(limit.Exit))
	}
	return err.Error()
}
