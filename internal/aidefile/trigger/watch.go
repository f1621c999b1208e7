package trigger

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
)

// look is how long a clock on the wall is trusted not to be set.
const look = 30 * time.Second

// Watch calls fire for each schedule that is due, one at a time, until ctx
// ends. Its times begin now.
func Watch(ctx context.Context, schedules []aidefile.Schedule, fire func(aidefile.Due)) {
	clock := aidefile.NewClock(wall(), schedules)
	for {
		next := clock.Next()
		if next.IsZero() {
			return
		}
		timer := time.NewTimer(min(max(0, time.Until(next)), look))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		for _, due := range clock.Tick(wall()) {
			if ctx.Err() != nil {
				return
			}
			fire(due)
		}
	}
}

// wall is the time by the wall alone: a monotonic reading stops while the
// machine sleeps.
func wall() time.Time { return time.Now().Round(0) }

// Poll calls ask every interval, and after errors less and less often, up to
// once in slow, until ctx ends. The first time is at once.
func Poll(ctx context.Context, every, slow time.Duration, ask func(context.Context) error) {
	pause := every
	for ctx.Err() == nil {
		if ask(ctx) == nil {
			pause = every
		} else {
			pause = max(every, min(2*pause, slow))
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}
