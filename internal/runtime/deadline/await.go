package deadline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// Errors of Await.
var (
	ErrNone = errors.New("there is no deadline") // the machine has left its fleet
	ErrOver = errors.New("the deadline is over")
)

// restPause is the time between two looks at a deadline that is over.
const restPause = time.Second

// Waiter waits for the deadline in a file. Unlike a Watcher it also notices that there is none any longer.
type Waiter struct {
	path  string
	state state
}

// NewWaiter returns a Waiter for a file. It reads nothing yet.
func NewWaiter(path string) *Waiter { return &Waiter{path: path} }

// Await sleeps until the deadline has come and was not moved, and returns it, once for each deadline, with an error
// that wraps runtime.ErrDeadline. at is as in Watch. The error is ErrNone if there is no deadline, and ErrOver, after a
// pause, if the last one is still over.
func (w *Waiter) Await(ctx context.Context) (at Instant, why error) {
	rung := make(chan struct{}, 1)
	a := newAlarm(func() {
		select {
		case rung <- struct{}{}:
		default:
		}
	})
	defer a.close()
	for {
		w.state.read(load(w.path))
		now, err := Now()
		if err != nil {
			return 0, fmt.Errorf("%w: %w", runtime.ErrDeadline, err)
		}
		next, over := w.state.next(now)
		switch {
		case over != nil:
			return w.state.end(now), over
		case w.state.deadline.none:
			return 0, ErrNone
		case next == 0:
			select {
			case <-time.After(restPause):
				return 0, ErrOver
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		a.set(next)
		select {
		case <-rung:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
