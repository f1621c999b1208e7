package supervisor

import "time"

// Backoff is the delay before a restart. It grows with the number of
// consecutive restarts of the child and starts again from Base after a
// success: an incarnation that ran for StableAfter or, unless the limit of the
// child is CountStarts, a clean exit. The zero value is no delay.
type Backoff struct {
	Kind BackoffKind
	// Base is the first delay; 1 s if zero.
	Base time.Duration
	// Cap bounds each delay; 300 s if zero.
	Cap time.Duration
	// Jitter draws each delay uniformly from [0, delay], so that children that
	// failed together do not restart together.
	Jitter bool
	// StableAfter is the run time after which an incarnation counts as a
	// success; 60 s if zero, never if negative.
	StableAfter time.Duration
}

// BackoffKind is the growth of the delay with attempt n, counted from 0.
type BackoffKind uint8

const (
	NoBackoff   BackoffKind = iota // 0, 0, 0, ...
	Fixed                          // base, base, base, ...
	Linear                         // base, 2 base, 3 base, ...
	Exponential                    // base, 2 base, 4 base, ...
)

// Defaults of Backoff.
const (
	DefaultBackoffBase = time.Second
	DefaultBackoffCap  = 300 * time.Second
	DefaultStableAfter = 60 * time.Second
)

// Delay returns the delay before restart attempt n, counted from 0, without
// jitter. It never overflows and never exceeds the cap.
func (b Backoff) Delay(n int) time.Duration {
	if b.Kind == NoBackoff || n < 0 {
		return 0
	}
	base, limit := b.Base, b.Cap
	if base == 0 {
		base = DefaultBackoffBase
	}
	if limit == 0 {
		limit = DefaultBackoffCap
	}
	d := limit
	switch b.Kind {
	case Fixed:
		d = base
	case Linear:
		if int64(n) < int64(limit/base) {
			d = base * time.Duration(n+1)
		}
	case Exponential:
		if n < 63 && base <= limit>>n {
			d = base << n
		}
	}
	return min(d, limit)
}

// stable reports whether an incarnation that lived for d counts as a success.
func (b Backoff) stable(d time.Duration) bool {
	after := b.stableAfter()
	return after > 0 && d >= after
}

// shortLife returns the run time below which an exit counts as early.
func (b Backoff) shortLife() time.Duration {
	if after := b.stableAfter(); after > 0 {
		return after
	}
	return DefaultStableAfter
}

// stableAfter is the time after which an incarnation counts as a success; 0 if never.
func (b Backoff) stableAfter() time.Duration {
	switch {
	case b.StableAfter == 0:
		return DefaultStableAfter
	case b.StableAfter < 0:
		return 0
	}
	return b.StableAfter
}
