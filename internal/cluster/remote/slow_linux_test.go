package remote

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
)

// slow is a runtime whose starts and adoptions wait.
type slow struct {
	runtime.Runtime
	mu     sync.Mutex
	start  chan struct{} // a start begins when it is closed; nil: at once
	adopt  chan struct{}
	begun  chan struct{} // gets a value for each start and adoption that waits
	failed error         // of adoptions
}

func (r *slow) wait(ctx context.Context, c chan struct{}) error {
	if c == nil {
		return nil
	}
	select {
	case r.begun <- struct{}{}:
	default:
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *slow) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *slow) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	r.mu.Lock()
	c := r.start
	r.mu.Unlock()
	if err := r.wait(ctx, c); err != nil {
		return nil, err
	}
	return r.Runtime.Start(ctx, l)
}

func (r *slow) Adopt(ctx context.Context, path string) (runtime.Session, error) {
	r.mu.Lock()
	c, failed := r.adopt, r.failed
	r.mu.Unlock()
	if err := r.wait(ctx, c); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	return r.Runtime.Adopt(ctx, path)
}

// newSlowWay returns a way to a node whose daemon can be replaced.
func newSlowWay(t *testing.T) (w *way, r *slow, restart func()) {
	w = &way{pair: newPair(t)}
	dir := slotsDir(t)
	r = &slow{Runtime: openShim(t, shim.Options{Dir: dir}), begun: make(chan struct{}, 1)}
	var mu sync.Mutex
	s, address := w.serve(t, r)
	w.proxy = newProxy(t, func() string {
		mu.Lock()
		defer mu.Unlock()
		return address
	})
	w.address = w.proxy.address
	c := w.connect(t, w.address)
	w.far = &far{Runtime: c.Runtime("proc"), client: c, server: s, local: r}
	t.Cleanup(func() { w.Close() })
	w.connected(t)
	return w, r, func() {
		mu.Lock()
		defer mu.Unlock()
		w.server.Close()
		r.Close()
		r.set(func() { r.Runtime = openShim(t, shim.Options{Dir: dir}) })
		w.server, address = w.serve(t, r)
	}
}

// While a start is in progress that the client no longer waits for, an Adopt does not answer from before it.
func TestAdoptDuringStart(t *testing.T) {
	t.Parallel()
	w, r, _ := newSlowWay(t)
	gate := make(chan struct{})
	for _, path := range []string{"app/new", "app/old"} {
		if path == "app/old" {
			old := start(t, w.far, sh(path, 1, "exit 0"))
			await(t, "its end", old.Done())
		}
		gate = make(chan struct{})
		r.set(func() { r.start = gate })
		failed := make(chan error, 1)
		l := sh(path, 2, forever)
		l.Token = "of " + path
		go func() {
			_, err := w.Start(context.Background(), l)
			failed <- err
		}()
		<-r.begun
		w.cutAndAwait(t)
		if err := <-failed; !errors.Is(err, runtime.ErrUnknown) {
			t.Fatal(err)
		}
		if _, err := w.Adopt(ctxOf(t), path); !errors.Is(err, runtime.ErrUnknown) {
			t.Errorf("adopt of %s: %v", path, err)
		}
		close(gate)
		r.set(func() { r.start = nil })
		ctx := ctxOf(t)
		s, err := w.Adopt(ctx, path)
		for errors.Is(err, runtime.ErrUnknown) && ctx.Err() == nil {
			s, err = w.Adopt(ctx, path)
		}
		if err != nil || s.Observe().Token != l.Token {
			t.Errorf("adopt of %s: %v", path, err)
		}
	}
}

// A session is unknown until the node has told its state on the new connection, and while the node does not know it.
func TestUnknownAfterConnecting(t *testing.T) {
	t.Parallel()
	w, r, restart := newSlowWay(t)
	s := start(t, w.far, sh("app/a", 1, forever))
	gate := make(chan struct{})
	r.set(func() { r.adopt, r.failed = gate, runtime.ErrUnknown })
	restart()
	<-r.begun
	until(t, s, "connected", func(o runtime.Observation) bool {
		return o.Life == runtime.Unknown && strings.Contains(o.Detail, "has not told its state")
	})
	close(gate)
	until(t, s, "unknown to the node", func(o runtime.Observation) bool {
		return o.Life == runtime.Unknown && strings.HasSuffix(o.Detail, runtime.ErrUnknown.Error())
	})
	r.set(func() { r.failed = nil })
	if o := until(t, s, "alive", alive); o.PID == 0 || !o.Ready || o.SpecHash != "f" {
		t.Errorf("%+v", o)
	}
}
