package gate

import "time"

// Turn decides when a check runs: at intervals, and one at a time. Times count from any moment, by a
// clock that is never set. The zero value is due at once.
type Turn struct {
	running bool
	next    time.Duration
}

// Due reports whether the check is to run now.
func (t Turn) Due(now time.Duration) bool { return !t.running && t.next <= now }

// Next returns when it is to run; false while it runs.
func (t Turn) Next() (at time.Duration, ok bool) { return t.next, !t.running }

// Begin records that it runs.
func (t *Turn) Begin() { t.running = true }

// Running reports whether it runs.
func (t Turn) Running() bool { return t.running }

// End records that it has ended. It is due again after an interval.
func (t *Turn) End(now, interval time.Duration) { t.running, t.next = false, now+interval }
