package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/thejerf/suture/v4"
)

// sutureFleet is github.com/thejerf/suture: Add for each child, a hook that
// does nothing, a threshold that is never reached.
type sutureFleet struct {
	p      *probe
	panics bool
	cancel context.CancelFunc
	done   <-chan error
	bang   chan struct{}
}

type sutureIdle struct{ p *probe }

func (sutureIdle) String() string { return "idle" }

func (s sutureIdle) Serve(ctx context.Context) error {
	s.p.started.Add(1)
	<-ctx.Done()
	s.p.stopped.Add(1)
	return ctx.Err()
}

type sutureHot struct{ f *sutureFleet }

func (sutureHot) String() string { return "hot" }

func (h sutureHot) Serve(ctx context.Context) error {
	if !h.f.p.hotStarted() {
		select {
		case <-h.f.bang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	h.f.p.hotCrashes()
	if h.f.panics {
		panic(errCrash)
	}
	return errCrash
}

func (f *sutureFleet) start(n int, hot bool) error {
	f.bang = make(chan struct{})
	sup := suture.New("bench", suture.Spec{
		EventHook:        func(suture.Event) {},
		FailureThreshold: math.Inf(1),
		Timeout:          5 * time.Minute,
	})
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	f.done = sup.ServeBackground(ctx)
	for range n {
		sup.Add(sutureIdle{f.p})
	}
	if hot {
		sup.Add(sutureHot{f})
	}
	return nil
}

func (f *sutureFleet) crash() { f.bang <- struct{}{} }

func (f *sutureFleet) stop() error {
	f.cancel()
	if err := <-f.done; !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
