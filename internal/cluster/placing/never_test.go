package placing_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// TestNeverTwice: whatever happens to nodes and controllers, no agent runs on two nodes.
func TestNeverTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 15), 5, 60).Draw(rt, "steps")
		picks := rapid.SliceOfN(rapid.IntRange(0, 1000), len(steps), len(steps)).Draw(rt, "picks")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 8000), len(steps), len(steps)).Draw(rt, "pauses in ms")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.close()
			for i, step := range steps {
				w.step(step, picks[i])
				time.Sleep(time.Duration(pauses[i]) * time.Millisecond)
				synctest.Wait()
				w.check()
			}
		})
	})
}

// world has nodes whose guards end their agents at the deadline, in the time that each has.
type world struct {
	t     *testing.T
	s     *memory.Store
	nodes []*node
	c     *controller
	on    *node // of the controller
	next  map[string]uint64
	// placed has what the controller has placed and not started yet.
	placed map[string]runtime.Launch
	ends   context.CancelFunc
	wg     sync.WaitGroup
	ctx    context.Context
}

var paths = []string{"x", "y", "z"}

func newWorld(t *testing.T) *world {
	w := &world{t: t, s: memory.New(), next: map[string]uint64{}, placed: map[string]runtime.Launch{}}
	w.ctx, w.ends = context.WithCancel(t.Context())
	for _, name := range []string{"a", "b", "c"} {
		n := newNode(t, w.s, name)
		w.nodes = append(w.nodes, n)
		w.guard(n)
	}
	return w
}

func (w *world) close() {
	if w.c != nil {
		w.c.end()
	}
	w.ends()
	w.wg.Wait()
	w.s.Close()
}

// guard ends the agents of a node when its lease has ended, each at the end of its grace.
func (w *world) guard(n *node) {
	l := n.held()
	w.wg.Go(func() {
		select {
		case <-l.Done():
		case <-w.ctx.Done():
			return
		}
		n.mu.Lock()
		n.fenced = true
		n.mu.Unlock()
		time.Sleep(grace)
		for _, path := range n.machine.alive() {
			n.machine.end(path, runtime.ErrDeadline)
		}
	})
	w.wg.Go(func() {
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				n.mu.Lock()
				dead := n.dead
				n.mu.Unlock()
				if !dead {
					l.Renew(w.ctx)
				}
			case <-l.Done():
				return
			case <-w.ctx.Done():
				return
			}
		}
	})
}

func (w *world) step(step, pick int) {
	n, path := w.nodes[pick%len(w.nodes)], paths[pick%len(paths)]
	switch step {
	case 0, 1, 2, 13: // start, or place, what does not run, as far as the controller knows
		if w.c == nil {
			return
		}
		if l, ok := w.placed[path]; ok && step != 13 {
			delete(w.placed, path)
			w.c.Start(w.ctx, l)
			return
		}
		all, err := w.c.List(w.ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range all {
			if o.Path == path {
				w.next[path] = max(w.next[path], o.Incarnation)
			}
		}
		w.next[path]++
		l := launch(path, w.next[path])
		if step != 13 {
			w.c.Start(w.ctx, l)
		} else if w.c.Place(w.ctx, l) == nil {
			w.placed[path] = l
		}
	case 3: // an agent crashes
		n.machine.end(path, errCrashed)
	case 4: // a daemon is killed: nothing renews the lease of its node
		n.set(func(m *machine) { m.dead = true })
	case 5: // it comes back
		if n.epoch() == 0 && len(n.machine.alive()) == 0 {
			n.acquire(w.t, w.s)
			n.set(func(m *machine) { m.fenced, m.dead = false, false })
			w.guard(n)
		}
	case 6, 7: // another controller, which the last one may not know
		if w.c != nil {
			w.c.end()
			w.c = nil
			clear(w.placed)
		}
		if n.epoch() != 0 {
			var others []*node
			for _, other := range w.nodes {
				if other != n {
					others = append(others, other)
				}
			}
			w.c, w.on = lead(w.t, w.s, n, others...), n
			for _, path := range paths {
				w.c.wants[path] = placement.Want{Path: path, Group: "g"}
			}
			w.c.Sweep(w.ctx, func(_ context.Context, path string) error {
				n.machine.end(path, runtime.ErrDeadline)
				return nil
			})
		}
	case 8: // an agent is removed
		if w.c != nil {
			w.c.Remove(w.ctx, path)
		}
	case 9, 10: // the network between the nodes fails, or is there again
		n.set(func(m *machine) { m.unreachable = step == 9 && pick%2 == 0 })
	case 11: // a start has no answer
		n.set(func(m *machine) { m.mute = !m.mute })
	case 12: // an agent must go, or may stay
		n.setDraining(!n.isDraining())
	case 14: // the record of a place is damaged
		w.apply(store.Op{Kind: store.Put, Key: placing.Prefix + "/" + path, Value: []byte("{")})
	case 15: // a person mends it, once the agent runs nowhere
		if w.c == nil || w.runs(path) {
			return
		}
		if _, known := w.c.places.Of(path); !known {
			w.apply(store.Op{Kind: store.Delete, Key: placing.Prefix + "/" + path})
		}
	}
}

func (w *world) apply(op store.Op) {
	w.t.Helper()
	if _, err := w.s.Apply(w.ctx, store.Fence{}, nil, []store.Op{op}); err != nil {
		w.t.Fatal(err)
	}
}

// runs reports whether an agent runs on any node.
func (w *world) runs(path string) bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool { return slices.Contains(n.machine.alive(), path) })
}

func (w *world) check() {
	w.t.Helper()
	where := map[string]string{}
	for _, n := range w.nodes {
		for _, path := range n.machine.alive() {
			if where[path] != "" {
				w.t.Fatalf("%s runs on %s and on %s", path, where[path], n.name)
			}
			where[path] = n.name
		}
	}
}
