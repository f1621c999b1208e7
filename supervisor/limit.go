package supervisor

import (
	"strconv"
	"time"
)

// Limit bounds restarts. One rule serves all restart policies: when a restart is
// due and Max have been counted already, OnLimit applies. Four constructors make
// the usual limits: Escalating, Quarantining, GivingUp, Pausing; any mix is legal.
type Limit struct {
	// Max is the largest allowed count; 0 allows none, Unlimited any number.
	Max int
	// Within is the length of the window, edges included; 0 means that counts never expire.
	Within  time.Duration
	Count   Count
	Scope   Scope
	OnLimit LimitAction
}

// Unlimited is the Max of a limit that is never reached.
const Unlimited = -1

// Count selects the events that a Limit counts.
type Count uint8

const (
	// CountRestarts counts restart attempts, a restart of a group once. Max
	// restarts happen; the next one that is due reaches the limit (OTP intensity).
	CountRestarts Count = iota
	// CountStarts counts starts, the first one included, whether they
	// succeeded or not (Gas City's crash tracker). Four kinds of starts count
	// only in an empty window:
	//  - starts with the group of another child that has failed;
	//  - starts with a restarted supervisor, after the first;
	//  - starts by ReplaceChild;
	//  - where each child is counted on its own, starts of an incarnation that
	//    ran for Backoff.StableAfter and then ended cleanly.
	// RestartChild clears the window of a child that is counted on its own.
	CountStarts
	// CountConsecutive counts restart attempts since the last success: a clean
	// exit, or an incarnation that ran for Backoff.StableAfter (aide).
	CountConsecutive
	// CountFailures counts failed incarnations and failed starts, including the
	// current one (GLITCHLAB's systemic-failure detection).
	CountFailures
)

// Scope selects the children over which a Limit counts.
type Scope uint8

const (
	// ScopeSupervisor counts over all children of the supervisor together.
	ScopeSupervisor Scope = iota
	// ScopeChild counts for each child on its own. A child's own Limit always does.
	ScopeChild
)

// LimitAction is the reaction to a reached Limit.
type LimitAction uint8

const (
	// Escalate stops all children in reverse order and ends the supervisor
	// as a failure with a LimitError; its parent's strategy applies.
	Escalate LimitAction = iota
	// Quarantine delays the restart until the window has room again.
	Quarantine
	// GiveUp holds the restart until Reset.
	GiveUp
	// Pause holds this restart and all other starts until Resume. The first
	// start after that is a probe: the others wait until it succeeds, and its
	// failure pauses again.
	Pause
)

// Escalating is the limit of OTP and Sage: more than max restarts within the
// window end the supervisor. The window must be positive: Escalating(0, 0) is
// the zero Limit, which stands for the default.
func Escalating(max int, within time.Duration) Limit {
	return Limit{Max: max, Within: within, Count: CountRestarts, Scope: ScopeSupervisor, OnLimit: Escalate}
}

// Quarantining is the limit of Gas City: a child that was started max times
// within the window waits until the oldest start has left it.
func Quarantining(max int, within time.Duration) Limit {
	return Limit{Max: max, Within: within, Count: CountStarts, Scope: ScopeChild, OnLimit: Quarantine}
}

// GivingUp is the limit of aide: after max consecutive restarts without a
// success the child stays down until Reset.
func GivingUp(max int) Limit {
	return Limit{Max: max, Count: CountConsecutive, Scope: ScopeChild, OnLimit: GiveUp}
}

// Pausing is the limit of GLITCHLAB: max failures within the window pause the
// whole supervisor until Resume.
func Pausing(max int, within time.Duration) Limit {
	return Limit{Max: max, Within: within, Count: CountFailures, Scope: ScopeSupervisor, OnLimit: Pause}
}

// String describes the limit the way a user would say it.
func (l Limit) String() string {
	if l.Max < 0 {
		return "no limit"
	}
	s := strconv.Itoa(l.Max) + " " + l.Count.String()
	if l.Within > 0 {
		s += " in " + l.Within.String()
	}
	return s + ", then " + l.OnLimit.String()
}
