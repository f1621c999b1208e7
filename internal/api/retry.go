package api

import (
	"context"
	"errors"
	"time"
)

// Retry calls do until it reaches a daemon that is ready, at most for the given time. It
// returns the last error of do, or the cause of ctx.
func Retry(ctx context.Context, limit time.Duration, do func() error) error {
	deadline := time.Now().Add(limit)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := do()
		if !errors.Is(err, ErrDown) && !errors.Is(err, ErrStopping) && !errors.Is(err, ErrLost) ||
			time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
