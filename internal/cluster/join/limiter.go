package join

import (
	"context"
	"fmt"
	"time"
)

// Failed checks of tokens for all machines together, per period. Beyond that no token is checked.
const (
	maxFailed    = 10
	failedPeriod = time.Minute
)

// limiter bounds how many checks of tokens fail: because the token is wrong, or the store does not answer. A secret
// cannot be guessed anyway; the limit protects the store and the log.
type limiter struct {
	turn   chan struct{} // holds a token during a check, so that concurrent ones are counted
	failed []time.Time   // when the latest failed checks began, oldest first
}

func newLimiter() *limiter { return &limiter{turn: make(chan struct{}, 1)} }

// limitError is returned while no token is checked.
type limitError struct{ seconds int }

func (e *limitError) Error() string {
	return fmt.Sprintf("too many attempts to join have failed; try again in %d s", e.seconds)
}

// do calls check, unless too many checks have failed. The error is errBusy if ctx ends while other checks go on.
func (l *limiter) do(ctx context.Context, check func() error) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return errBusy
	}
	now := time.Now()
	for len(l.failed) > 0 && now.Sub(l.failed[0]) >= failedPeriod {
		l.failed = l.failed[1:]
	}
	if len(l.failed) >= maxFailed {
		left := failedPeriod - now.Sub(l.failed[0])
		return &limitError{int((left + time.Second - 1) / time.Second)}
	}
	err := check()
	if err != nil {
		l.failed = append(l.failed, now)
	}
	return err
}
