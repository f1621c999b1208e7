package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/coppice-dev/coppice/supervisor"
)

// way is the way in which children are added to a Coppice supervisor.
type way uint8

const (
	inSpec    way = iota // in Spec.Children
	added                // by StartChild
	instances            // of a pool, by StartInstance
)

// coppiceFleet is this project's library: a hook that does nothing, no
// backoff, a limit that is never reached.
type coppiceFleet struct {
	p      *probe
	way    way
	panics bool
	rest   bool // rest_for_one, and the first child fails on demand
	sup    *supervisor.Supervisor
	bang   chan struct{}
}

const hotID = "hot"

func (f *coppiceFleet) idle(ctx context.Context) error {
	f.p.started.Add(1)
	<-ctx.Done()
	f.p.stopped.Add(1)
	return ctx.Err()
}

// first is an idle child that fails on demand.
func (f *coppiceFleet) first(ctx context.Context) error {
	f.p.started.Add(1)
	select {
	case <-f.bang:
		f.p.stopped.Add(1)
		return errCrash
	case <-ctx.Done():
		f.p.stopped.Add(1)
		return ctx.Err()
	}
}

func (f *coppiceFleet) hot(ctx context.Context) error {
	if !f.p.hotStarted() {
		select {
		case <-f.bang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.p.hotCrashes()
	if f.panics {
		panic(errCrash)
	}
	return errCrash
}

// instance is the template of a pool; the hot instance is told by its argument.
func (f *coppiceFleet) instance(ctx context.Context) error {
	if self, ok := supervisor.SelfOf(ctx); ok && self.Arg == hotID {
		return f.hot(ctx)
	}
	return f.idle(ctx)
}

func (f *coppiceFleet) start(n int, hot bool) error {
	ctx := context.Background()
	f.bang = make(chan struct{})
	spec := supervisor.Spec{
		Name:    "bench",
		Limit:   supervisor.Limit{Max: supervisor.Unlimited},
		OnEvent: func(supervisor.Event) {},
	}
	if f.rest {
		spec.Strategy = supervisor.RestForOne
	}
	idle := f.idle // one function value for all
	switch f.way {
	case inSpec:
		spec.Children = make([]supervisor.ChildSpec, 0, n+1)
		for i := range n {
			spec.Children = append(spec.Children, supervisor.ChildSpec{ID: strconv.Itoa(i), Run: idle})
		}
		if f.rest {
			spec.Children[0].Run = f.first
		}
		if hot {
			spec.Children = append(spec.Children, supervisor.ChildSpec{ID: hotID, Run: f.hot})
		}
	case instances:
		spec.Strategy = supervisor.SimpleOneForOne
		run := idle
		if hot {
			run = f.instance
		}
		spec.Children = []supervisor.ChildSpec{{ID: "instance", Run: run}}
	}
	sup, err := supervisor.Start(ctx, spec)
	if err != nil {
		return err
	}
	f.sup = sup
	switch f.way {
	case added:
		for i := range n {
			if _, err := sup.StartChild(ctx, supervisor.ChildSpec{ID: strconv.Itoa(i), Run: idle}); err != nil {
				return err
			}
		}
		if hot {
			_, err = sup.StartChild(ctx, supervisor.ChildSpec{ID: hotID, Run: f.hot})
		}
	case instances:
		for i := range n {
			if _, err := sup.StartInstance(ctx, strconv.Itoa(i), nil); err != nil {
				return err
			}
		}
		if hot {
			_, err = sup.StartInstance(ctx, hotID, hotID)
		}
	}
	return err
}

func (f *coppiceFleet) crash() { f.bang <- struct{}{} }

func (f *coppiceFleet) stop() error {
	f.sup.Stop()
	return f.sup.Wait()
}

// restarts is the supervisor's own count.
func (f *coppiceFleet) restarts() (int, error) {
	info, err := f.sup.Child(hotID)
	if err != nil {
		return 0, err
	}
	if info.State != supervisor.Running {
		return 0, errors.New("the hot child is " + info.State.String())
	}
	return info.Restarts, nil
}
