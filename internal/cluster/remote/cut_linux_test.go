package remote

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
)

// patient uses a runtime whose node cannot be reached now and then, as package agent does.
type patient struct{ *far }

func (p patient) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	if l.Token == "" {
		l.Token = "token " + time.Now().String()
	}
	for {
		s, err := p.far.Start(ctx, l)
		if !errors.Is(err, errLost) {
			return patiently(s, err)
		}
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), testTimeout)
		defer cancel()
		s, err = p.far.Adopt(late, l.Path)
		for errors.Is(err, runtime.ErrUnknown) && late.Err() == nil {
			s, err = p.far.Adopt(late, l.Path)
		}
		switch {
		case err == nil && s.Observe().Token == l.Token:
			if err := s.AwaitReady(ctx); err != nil {
				if ctx.Err() != nil { // it is given up
					s.Stop()
					<-s.Done()
				}
				return nil, err
			}
			return patiently(s, nil)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
}

// repeat asks until the connection is not lost meanwhile. The client itself repeats only some times.
func repeat[T any](ask func() (T, error)) (answer T, err error) {
	for {
		if answer, err = ask(); !errors.Is(err, errLost) {
			return answer, err
		}
	}
}

func (p patient) Adopt(ctx context.Context, path string) (runtime.Session, error) {
	return patiently(repeat(func() (runtime.Session, error) { return p.far.Adopt(ctx, path) }))
}

func (p patient) List(ctx context.Context) ([]runtime.Observation, error) {
	return repeat(func() ([]runtime.Observation, error) { return p.far.List(ctx) })
}

func (p patient) Removed() ([]string, error) { return repeat(p.far.Removed) }

func (p patient) Ready(ctx context.Context, path string, incarnation uint64) error {
	_, err := repeat(func() (any, error) { return nil, p.far.Ready(ctx, path, incarnation) })
	return err
}

func (p patient) Remove(ctx context.Context, path string) error {
	_, err := repeat(func() (any, error) { return nil, p.far.Remove(ctx, path) })
	return err
}

func patiently(s runtime.Session, err error) (runtime.Session, error) {
	if err != nil {
		return nil, err
	}
	return patientSession{s}, nil
}

type patientSession struct{ runtime.Session }

// Observe waits until the state is known.
func (p patientSession) Observe() runtime.Observation {
	for {
		o := p.Session.Observe()
		if o.Life != runtime.Unknown {
			return o
		}
		select {
		case <-p.Done():
		case <-p.Session.(*session).r.ctx.Done():
			return o
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (p patientSession) Signal(ctx context.Context, sig syscall.Signal) error {
	_, err := repeat(func() (any, error) { return nil, p.Session.Signal(ctx, sig) })
	return err
}

func (p patientSession) Write(ctx context.Context, data []byte) error {
	_, err := repeat(func() (any, error) { return nil, p.Session.Write(ctx, data) })
	return err
}

func (p patientSession) Resize(ctx context.Context, rows, cols uint16) error {
	_, err := repeat(func() (any, error) { return nil, p.Session.Resize(ctx, rows, cols) })
	return err
}

func (p patientSession) Peek(ctx context.Context, n int) ([]string, error) {
	return repeat(func() ([]string, error) { return p.Session.Peek(ctx, n) })
}

func (p patientSession) LastActivity(ctx context.Context) (time.Time, error) {
	return repeat(func() (time.Time, error) { return p.Session.LastActivity(ctx) })
}

// served waits until a connection of a client has answered some requests, so that there is progress however slow the
// machine is, or has had time for it, and some milliseconds more.
func served(ctx context.Context, c *Client, requests int) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var late <-chan time.Time
	for {
		if l, _ := c.current(); l != nil {
			if late == nil {
				late = time.After(100 * time.Millisecond)
			}
			l.mu.Lock()
			answered := int(l.last) - len(l.pending)
			l.mu.Unlock()
			if answered > requests { // one is the hello
				break
			}
		}
		select {
		case <-tick.C:
			continue
		case <-late:
		case <-ctx.Done():
			return false
		}
		break
	}
	select {
	case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
	case <-ctx.Done():
	}
	return true
}

// A runtime whose connections are cut again and again does what is asked of it, late.
func TestConformanceWithCuts(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	var cuts atomic.Int64
	open := func(t testing.TB, o shim.Options) runtime.Runtime {
		local := openShim(t, o)
		s, address := p.serve(t, local)
		way := newProxy(t, func() string { return address })
		c := p.connect(t, way.address)
		ctx, stop := context.WithCancel(context.Background())
		var cutting sync.WaitGroup
		t.Cleanup(func() {
			stop()
			cutting.Wait()
		})
		cutting.Go(func() {
			for ctx.Err() == nil {
				if served(ctx, c, 1+rand.IntN(4)) {
					cuts.Add(1)
				}
				way.cut()
			}
		})
		f := &far{Runtime: c.Runtime("proc"), client: c, server: s, local: local}
		t.Cleanup(func() { f.Close() })
		return patient{f}
	}
	runtimetest.Run(t, func(t testing.TB, state string) runtime.Runtime {
		return open(t, shim.Options{Dir: state})
	}, runtimetest.Options{
		// A viewer must attach again, and a start that is given up while it is lost ends with the agent's own end. What
		// comes late is not held against a time.
		Without: []string{"Attach", "StartGivenUp", "StopLadder", "NoDescendantStays"},
		Until: func(t testing.TB, state, file string) runtime.Runtime {
			return open(t, shim.Options{Dir: state, Deadline: file})
		},
	})
	if n := cuts.Load(); n == 0 {
		t.Error("no connection was cut")
	}
}
