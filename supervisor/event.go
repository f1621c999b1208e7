package supervisor

import (
	"errors"
	"fmt"
	"time"
)

// Event reports an action or observation of a supervisor. The set of types is
// closed; switch on it.
type Event interface {
	// Header returns the time, the node and the incarnation.
	Header() EventHeader
	// String returns one line of text.
	String() string
	event()
}

// EventHeader is common to all events.
type EventHeader struct {
	Time        time.Time
	Supervisor  string // path of the supervisor
	ID          string // of the child; "" where the event is the supervisor's own
	Incarnation uint64 // of the child
	Type        ChildType

	// After is the state after the step that made this event. Events of one
	// step may share it: it must not be changed. It is nil in EventsLost.
	After *Snapshot
}

// Path is the path of the node that the event is about.
func (h EventHeader) Path() string {
	if h.ID == "" {
		return h.Supervisor
	}
	return h.Supervisor + "/" + h.ID
}

// Header returns the header itself; it makes the event types Events.
func (h EventHeader) Header() EventHeader { return h }
func (EventHeader) event()                {}

// Decision is a decision about a child, with its reason.
type Decision struct {
	Action  Action
	Reason  Reason
	Delay   time.Duration // before a restart
	Attempt int           // of the restart, counted from 1 since the last success
}

func (d Decision) String() string {
	switch {
	case d.Action == Leave, d.Action == Forget:
		return fmt.Sprintf("not restarted: %v", d.Reason)
	case d.Delay > 0 && d.Action == HoldIt:
		return fmt.Sprintf("%v for %v: %v", d.Action, d.Delay.Round(time.Millisecond), d.Reason)
	case d.Delay > 0:
		return fmt.Sprintf("%v in %v (attempt %d): %v", d.Action, d.Delay.Round(time.Millisecond), d.Attempt, d.Reason)
	}
	return fmt.Sprintf("%v: %v", d.Action, d.Reason)
}

// Action is the outcome of a Decision.
type Action uint8

const (
	Leave     Action = iota // not restarted; stays listed
	Forget                  // not restarted; no longer listed
	RestartIt               // restarted, alone or with its group, now or after Delay
	HoldIt                  // a limit holds the restart
	EndSelf                 // the supervisor ends
)

// Reason is the rule on which a Decision rests.
type Reason uint8

const (
	NoReason Reason = iota
	ReasonPermanent
	ReasonTransientFailed
	ReasonTransientClean
	ReasonTemporary
	ReasonIgnored
	ReasonTerminated
	ReasonSibling
	ReasonShutdown
	ReasonStartFailed
	ReasonLimitEscalate
	ReasonLimitQuarantine
	ReasonLimitGiveUp
	ReasonLimitPause
	ReasonProbe
	ReasonSignificant
	ReasonDone
	ReasonManual
	ReasonAbandoned
	ReasonReset
	ReasonDeferred
	ReasonReplaced
	ReasonRetry
	// Reasons that callers pass to TerminateChild, SuspendChild and ReplaceChild.
	ReasonStopped
	ReasonSuspended
	ReasonDrained
	ReasonRemoved
	ReasonSurplus
	ReasonChanged
	ReasonRequested
	ReasonMoved
)

// Reasons returns every Reason.
func Reasons() []Reason {
	all := make([]Reason, len(reasonNames))
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

// SupervisorStarted: all children have been started.
type SupervisorStarted struct{ EventHeader }

// SupervisorStopping: the children are being stopped, last one first.
type SupervisorStopping struct {
	EventHeader
	Reason Reason
	Err    error // a *LimitError where a limit was reached
}

// SupervisorEnded: none of its children runs, except abandoned incarnations.
type SupervisorEnded struct {
	EventHeader
	Exit Exit
}

// ChildStarted: an incarnation runs (OTP's progress report).
type ChildStarted struct {
	EventHeader
	Restart bool // false for the first start and for StartChild
	Adopted bool // it was running already: see Saved.Adopt
	// Took is the time until it was ready; 0 if it was adopted.
	Took time.Duration
}

// ChildStartFailed: a start did not succeed (OTP's start_error).
type ChildStartFailed struct {
	EventHeader
	Err      error
	Decision Decision
	Took     time.Duration // the time until it failed
}

// ChildIgnored: the start returned ErrIgnore, so the child is not needed now.
type ChildIgnored struct{ EventHeader }

// ChildExited: an incarnation ended on its own (OTP's child_terminated).
type ChildExited struct {
	EventHeader
	Exit     Exit
	Uptime   time.Duration
	Decision Decision
}

// ChildStopping: a child is asked to stop.
type ChildStopping struct {
	EventHeader
	Reason Reason
}

// ChildStopped: a child has ended after a stop request. If Exit is not clean,
// this is OTP's shutdown_error.
type ChildStopped struct {
	EventHeader
	Exit   Exit
	Reason Reason
	Uptime time.Duration // since it was ready, or since its start if it never was
}

// ChildChanged: a call has changed the state of a child without a start or exit:
// it ended a delay, cleared a hold, or reset the counters.
type ChildChanged struct {
	EventHeader
	State  State
	Reason Reason
}

// ChildAbandoned: a child did not end in time, could not be killed, and was cut off.
type ChildAbandoned struct {
	EventHeader
	Waited time.Duration
}

// ChildReturned: an abandoned incarnation has ended.
type ChildReturned struct {
	EventHeader
	Exit Exit
}

// ChildMisbehaved: Stop or Kill of a process has panicked. The supervisor still
// waits for the end of the process, within its shutdown time.
type ChildMisbehaved struct {
	EventHeader
	Err error
}

// LimitReached: a limit stops the restarts of a child or of the whole supervisor.
type LimitReached struct {
	EventHeader
	Limit Limit
	Until time.Time // end of a quarantine; zero otherwise
	Exit  Exit      // the one that reached the limit
}

// LimitLifted: a child or supervisor that a limit had held may start again.
type LimitLifted struct {
	EventHeader
	Reason Reason
}

// EventsLost: a hook was too slow, and N events were dropped before this one.
type EventsLost struct {
	EventHeader
	N int
}

func (e SupervisorStarted) String() string { return e.Path() + " started" }
func (e SupervisorStopping) String() string {
	if e.Err != nil {
		return fmt.Sprintf("%s stopping: %v", e.Path(), e.Err)
	}
	return fmt.Sprintf("%s stopping: %v", e.Path(), e.Reason)
}
func (e SupervisorEnded) String() string { return fmt.Sprintf("%s ended: %v", e.Path(), e.Exit) }
func (e ChildStarted) String() string {
	if e.Adopted {
		return fmt.Sprintf("%s taken over, incarnation %d", e.Path(), e.Incarnation)
	}
	if e.Restart {
		return fmt.Sprintf("%s restarted, incarnation %d", e.Path(), e.Incarnation)
	}
	return fmt.Sprintf("%s started", e.Path())
}
func (e ChildStartFailed) String() string {
	return fmt.Sprintf("%s failed to start: %v; %v", e.Path(), e.Err, e.Decision)
}
func (e ChildIgnored) String() string { return e.Path() + " is not needed now" }
func (e ChildExited) String() string {
	return fmt.Sprintf("%s ended after %v: %v; %v", e.Path(), e.Uptime.Round(time.Millisecond), e.Exit, e.Decision)
}
func (e ChildStopping) String() string { return fmt.Sprintf("%s stopping: %v", e.Path(), e.Reason) }
func (e ChildStopped) String() string {
	return fmt.Sprintf("%s stopped: %v (%v)", e.Path(), e.Exit, e.Reason)
}
func (e ChildChanged) String() string {
	return fmt.Sprintf("%s is %v: %v", e.Path(), e.State, e.Reason)
}
func (e ChildAbandoned) String() string {
	return fmt.Sprintf("%s abandoned: did not stop within %v", e.Path(), e.Waited)
}
func (e ChildReturned) String() string {
	return fmt.Sprintf("%s: abandoned incarnation %d ended: %v", e.Path(), e.Incarnation, e.Exit)
}
func (e ChildMisbehaved) String() string {
	return fmt.Sprintf("%s: stopping it panicked: %v", e.Path(), e.Err)
}
func (e LimitReached) String() string {
	switch {
	case e.Limit.OnLimit == GiveUp && errors.Is(e.Exit.Err, ErrDoNotRestart): // whatever was counted
		return fmt.Sprintf("%s given up: %v", e.Path(), e.Exit)
	case e.Until.IsZero():
		return fmt.Sprintf("%s reached its limit (%v): %v", e.Path(), e.Limit, e.Exit)
	}
	return fmt.Sprintf("%s reached its limit (%v), held until %s: %v", e.Path(), e.Limit,
		e.Until.Format(time.TimeOnly), e.Exit)
}
func (e LimitLifted) String() string {
	return fmt.Sprintf("%s may start again: %v", e.Path(), e.Reason)
}
func (e EventsLost) String() string { return fmt.Sprintf("%s: %d events lost", e.Path(), e.N) }
