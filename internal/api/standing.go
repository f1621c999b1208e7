package api

import "time"

// Standing is what the patrol makes of an agent or supervisor: what is wanted,
// what is, and what a round would do about it now.
type Standing struct {
	Wanted string `json:"wanted"`        // run, suspend, finish. Readers must expect others.
	Why    string `json:"why,omitempty"` // it is not to run
	// Observed is unknown, down (only reconciliation will start it), running,
	// kept (its supervisor starts, stops, delays or holds it) or done (it was
	// stopped by hand, or has ended and stays so).
	Observed string   `json:"observed"`
	Ready    bool     `json:"ready"`     // what depends on it may start
	Known    bool     `json:"known"`     // it runs, and with what it was started is known
	Drifted  []string `json:"drifted"`   // fields in which it differs from what is declared now
	WaitsFor []string `json:"waits_for"` // nodes that have to be ready, or gone, before it starts
	// HeldUntil is when its limit has room for another start.
	HeldUntil *time.Time `json:"held_until,omitempty"`
	// IdleLeft is how many seconds it may still neither read nor write; not
	// there if that does not count.
	IdleLeft  *float64   `json:"idle_left,omitempty"`
	Busy      bool       `json:"busy"`             // something that was planned is being done
	Action    string     `json:"action,omitempty"` // what a round would do now, as in RoundAction; empty: nothing
	Reason    string     `json:"reason,omitempty"` // of that
	NextRound *time.Time `json:"next_round,omitempty"`
}
