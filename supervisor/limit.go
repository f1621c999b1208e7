package supervisor

import (
	"fmt"
	"time"
)

// Limit says when to stop restarting, and what happens then. One rule serves
// all four of the system's restart policies: when a restart is wanted and Max
// things have been counted already, Then applies. Four constructors make the
// four rows: Escalating, Quarantining, GivingUp, Pausing; any mix is legal.
type Limit struct {
	// Max is how many may be counted; 0 allows none, Unlimited any number.
	Max int
	// Within is the window in which they count, edges included; 0 means for ever.
	Within  time.Duration
	Count   Count
	Scope   Scope
	OnLimit LimitAction
}

// Unlimited is the Max of a limit that is never reached.
const Unlimited = -1

// Count says what a Limit counts.
type Count uint8

const (
	// CountRestarts counts restart attempts, a restart of a group once. Max
	// restarts happen, the next one wanted reaches the limit (OTP intensity).
	CountRestarts Count = iota
	// CountStarts counts starts, the first one included, whether they
	// succeeded or not (Gas City's crash tracker). Four kinds of starts do
	// not count: those with the group of another child that has failed; those
	// with a supervisor that is restarted, after the first; those by ReplaceChild;
	// and, where each child is counted on its own, those of an incarnation that
	// lived Backoff.StableAfter and then ended cleanly. If nothing else is in
	// the window, they count, as the first start does. RestartChild clears the
	// window of a child that is counted on its own, so that its start is the first.
	CountStarts
	// CountConsecutive counts restart attempts since the last success, that
	// is a clean exit or an incarnation that lived Backoff.StableAfter (aide).
	CountConsecutive
	// CountFailures counts failed incarnations and failed starts, the one at
	// hand included (GLITCHLAB's systemic-failure detection).
	CountFailures
)

// Scope says over what a Limit counts.
type Scope uint8

const (
	// ScopeSupervisor counts over all children of the supervisor together.
	ScopeSupervisor Scope = iota
	// ScopeChild counts for each child on its own. A child's own Limit always does.
	ScopeChild
)

// LimitAction says what happens when a Limit is reached.
type LimitAction uint8

const (
	// Escalate stops all children in reverse order and ends the supervisor
	// as a failure with a LimitError; its parent's strategy applies.
	Escalate LimitAction = iota
	// Quarantine holds the restart until the window has room again; it then
	// happens by itself.
	Quarantine
	// GiveUp holds the restart until Reset.
	GiveUp
	// Pause holds this restart and everything else that would start, until
	// Resume. The first to start after that is a probe: the others wait until
	// it succeeds, and its failure pauses again.
	Pause
)

// Escalating is the row of OTP and Sage: more than max restarts within the
// window end the supervisor. The window must be positive: Escalating(0, 0) is
// the zero Limit, which stands for the default.
func Escalating(max int, within time.Duration) Limit {
	return Limit{Max: max, Within: within, Count: CountRestarts, Scope: ScopeSupervisor, OnLimit: Escalate}
}

// Quarantining is the row of Gas City: a child that was started max times
// within the window waits until the oldest start has left it.
func Quarantining(max int, within time.Duration) Limit {
	return Limit{Max: max, Within: within, Count: CountStarts, Scope: ScopeChild, OnLimit: Quarantine}
}

// GivingUp is the row of aide: after max consecutive restarts without a
// success the child stays down until Reset.
func GivingUp(max int) Limit {
	return Limit{Max: max, Count: CountConsecutive, Scope: ScopeChild, OnLimit: GiveUp}
}

// Pausing is the row of GLITCHLAB: max failures within the window pause the
// whole supervisor until Resume.
func Pausing(max int, within time.Duration) Limit {
	return Limit{Max: max, Within: within, Count: CountFailures, Scope: ScopeSupervisor, OnLimit: Pause}
}

// String describes the limit the way a user would say it.
func (l Limit) String() string {
	if l.Max < 0 {
		return "no limit"
	}
	s := fmt.Sprintf("%d %s", l.Max, l.Count)
	if l.Within > 0 {
		s += fmt.Sprintf(" in %v", l.Within)
	}
	return s + ", then " + l.OnLimit.String()
}
