// Package election gives work to one process at a time: the one that holds a lease. The others stand by.
package election

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// DefaultTTL is the time of a lease, after which another process takes over from one that was killed.
const DefaultTTL = 10 * time.Second

// Times, as parts of the ttl. A lease is renewed when a third of its time is over, so that several attempts fit in
// before its deadline.
const (
	renewAfter = 3
	retryAfter = 20
	maxPoll    = time.Second // between two attempts to acquire a lease that is held
)

// ErrLost is the cause of the context of work whose lease has ended.
var ErrLost = errors.New("the lease was lost")

// Options of Run. All but the functions are required.
type Options struct {
	Store store.Store
	Name  string // of the lease
	TTL   time.Duration
	// Resume is the fence with which an earlier process of this machine may still hold the lease. It is tried first.
	Resume store.Fence
	// Asking is called before the lease is acquired, resumed or renewed, and Renewed after that, when the lease has a
	// new deadline: the first time before the work, later from another goroutine. Either may be nil.
	Asking  func()
	Renewed func(l store.Lease)
	// Waiting is called when another process has the lease, once for each time of waiting.
	Waiting func(held *store.HeldError)
	Logger  *slog.Logger
}

func (o Options) asking() {
	if o.Asking != nil {
		o.Asking()
	}
}

// Work is done while the lease is held. Its context ends with that of Run; the lease is then held on until the work
// returns. Or it ends with the cause ErrLost when the lease was lost: others may do the same work by then, and the
// fence is refused, so it must end at once. If abandon is true, the lease is left to a later process of this machine.
type Work func(ctx context.Context, l store.Lease) (abandon bool, err error)

// Run waits for the lease and does the work, again each time that the lease was lost, until ctx ends or the work
// returns by itself. It returns the error of the work, or the cause of the end of ctx if that has not begun.
func Run(ctx context.Context, o Options, work Work) error {
	for {
		l, err := acquire(ctx, o)
		if err != nil {
			return err
		}
		lost, err := hold(ctx, o, l, work)
		if !lost || err != nil {
			return err
		}
		o.Logger.Warn("the lease was lost; standing by", "lease", o.Name)
	}
}

// acquire returns when the lease is held, or ctx has ended.
func acquire(ctx context.Context, o Options) (store.Lease, error) {
	if o.Resume != (store.Fence{}) {
		l, err := resume(ctx, o)
		if l != nil || err != nil {
			return l, err
		}
	}
	told, failing := false, ""
	for {
		o.asking()
		l, err := o.Store.Acquire(ctx, o.Name, o.TTL)
		if err == nil {
			return l, nil
		}
		var held *store.HeldError
		pause := o.TTL / retryAfter
		switch {
		case errors.As(err, &held):
			if !told && o.Waiting != nil {
				o.Waiting(held)
			}
			told, failing = true, ""
			pause = min(max(time.Until(held.Until), pause), maxPoll)
		case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrInvalid):
			return nil, err
		case ctx.Err() == nil && err.Error() != failing:
			failing = err.Error()
			o.Logger.Warn("cannot acquire the lease; trying on", "lease", o.Name, "error", err)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// resume tries to take the lease over from an earlier process until that has certainly lost it. It returns nil if it
// has.
func resume(ctx context.Context, o Options) (store.Lease, error) {
	for end := time.Now().Add(o.TTL); ; {
		o.asking()
		l, err := o.Store.Resume(ctx, o.Resume, o.TTL)
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, store.ErrFenced), time.Now().After(end):
			return nil, nil
		case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrInvalid):
			return nil, err
		}
		if err := sleep(ctx, o.TTL/retryAfter); err != nil {
			return nil, err
		}
	}
}

// hold does the work while the lease is held, and reports whether it was lost.
func hold(ctx context.Context, o Options, l store.Lease, work Work) (lost bool, err error) {
	if o.Renewed != nil {
		o.Renewed(l)
	}
	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	abandon, finished := false, make(chan struct{})
	go func() {
		defer close(finished)
		abandon, err = work(working, l)
	}()
	renew(o, l, finished)
	select {
	case <-l.Done(): // the work may have ended at the same time
		lost = true
		end(ErrLost)
	default:
	}
	<-finished
	switch {
	case lost:
		return ctx.Err() == nil, err
	case abandon:
		l.Abandon()
		return false, err
	}
	// Others need not wait until it expires.
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.TTL/renewAfter)
	defer cancel()
	if releaseErr := l.Release(releasing); releaseErr != nil {
		o.Logger.Warn("the lease was not released; it expires", "lease", o.Name, "error", releaseErr)
	}
	return false, err
}

// renew renews the lease until it is lost or the work has finished.
func renew(o Options, l store.Lease, finished <-chan struct{}) {
	// A renewal may take until the deadline, and must not hold up the end of the work.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failing := false
	for pause := o.TTL / renewAfter; ; {
		select {
		case <-time.After(pause):
		case <-l.Done():
			return
		case <-finished:
			return
		}
		o.asking()
		result := make(chan error, 1)
		go func() { result <- l.Renew(ctx) }()
		var err error
		select {
		case err = <-result:
		case <-l.Done():
			return
		case <-finished:
			return
		}
		switch {
		case err == nil:
			if failing {
				o.Logger.Info("the lease is renewed again", "lease", o.Name)
			}
			failing, pause = false, o.TTL/renewAfter
			if o.Renewed != nil {
				o.Renewed(l)
			}
		case errors.Is(err, store.ErrFenced):
			<-l.Done()
			return
		default:
			if !failing {
				o.Logger.Warn("the lease cannot be renewed; trying on", "lease", o.Name, "until", l.Deadline(),
					"error", err)
			}
			failing, pause = true, o.TTL/retryAfter
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
