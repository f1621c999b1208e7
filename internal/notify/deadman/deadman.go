// Package deadman pings a service while a daemon works, so that the service tells people when it no longer does.
package deadman

import (
	"context"
	"log/slog"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Options configure a Pinger. All are required.
type Options struct {
	Settings func() spec.Deadman
	// Healthy returns why the daemon does not work; nil if it does. Nothing is pinged while it hangs.
	Healthy func() error
	// Ping requests the URL, in bounded time. Its error must not have a secret.
	Ping   func(context.Context, spec.Deadman) error
	Logger *slog.Logger
}

// Pinger pings a service.
type Pinger struct {
	Options
	wake chan struct{} // holds a token when the settings may be others
}

// New returns a Pinger that does nothing before Run.
func New(o Options) *Pinger { return &Pinger{o, make(chan struct{}, 1)} }

// Changed has the settings read again.
func (p *Pinger) Changed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// A ping that has failed is tried again sooner than the next one is due, so that the service does not wait in vain.
const (
	retriesPerInterval = 10
	minRetry           = 10 * time.Second
)

// Run pings at once and then at each interval, until ctx ends.
func (p *Pinger) Run(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		d := p.Settings()
		var next <-chan time.Time
		if d.IsSet() {
			err := p.once(ctx, d)
			if err != nil && !failing && ctx.Err() == nil { // once until it works again
				p.Logger.Warn("cannot ping [deadman]", "error", err)
			}
			wait := d.Interval
			if failing = err != nil; failing {
				wait = min(wait, max(minRetry, d.Interval/retriesPerInterval))
			}
			next = time.After(wait)
		}
		for waiting := true; waiting; {
			select {
			case <-next:
				waiting = false
			case <-p.wake:
				waiting = p.Settings() == d // other parts of the file have changed
			case <-ctx.Done():
				return
			}
		}
	}
}

// once pings if the daemon works.
func (p *Pinger) once(ctx context.Context, d spec.Deadman) error {
	if err := p.Healthy(); err != nil {
		return err
	}
	return p.Ping(ctx, d)
}
