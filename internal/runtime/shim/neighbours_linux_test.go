package shim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
)

// An agent does not notice what others in its shim do, nor they what it does.
func TestConformanceWithNeighbours(t *testing.T) {
	t.Parallel()
	runtimetest.Run(t, new(neighbourhood).open, runtimetest.Options{})
}

// neighbourhood opens runtimes in which other agents have the shim of the agents of a test, from before it to its end.
// They are never listed.
type neighbourhood struct{ states map[string]proc.Identity } // the shims, by the directories of the slots

// neighbours are scripts. All but the first end soon, and are started again.
var neighbours = []string{
	`(env -i setsid sh -c 'echo "pid $$"; exec sleep 1000' &)
while :; do echo noise; sleep 0.02; done`,
	`for i in 1 2 3; do (env -i setsid sleep 1000 &); echo noise; sleep 0.02; done; exit 1`,
	`setsid sleep 1000 & head -c 20000 /dev/zero | tr '\0' '\n'; sleep 0.1; kill -KILL $$`,
}

const neighbour = "app/neighbour"

func (n *neighbourhood) open(t testing.TB, state string) runtime.Runtime {
	shim, ok := n.states[state]
	if !ok {
		shim = begin(t, state)
		if n.states == nil {
			n.states = make(map[string]proc.Identity)
		}
		n.states[state] = shim
	}
	return hides{openWith(t, Options{Dir: state, WithoutGroups: true}), t, shim}
}

// begin starts the neighbours of a test, and returns their shim. At the end of the test the first one and what it has
// left behind must run still.
func begin(t testing.TB, state string) proc.Identity {
	r := openWith(t, Options{Dir: state, WithoutGroups: true})
	first := start(t, r, neighbourLaunch(0, 1))
	left := pids(t, first, 1)[0]
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := 1; i < len(neighbours); i++ {
		running.Go(func() {
			for n := uint64(1); ctx.Err() == nil; n++ {
				s, err := r.Start(context.Background(), neighbourLaunch(i, n))
				if err != nil {
					t.Errorf("incarnation %d of neighbour %d: %v", n, i, err)
					return
				}
				<-s.Done()
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if o := first.Observe(); o.Life != runtime.Alive || proc.Observe(left) != proc.Alive {
			t.Errorf("the neighbour: %+v; what it has left behind: %v", o, proc.Observe(left))
		}
		first.Kill()
		wait(t, "the end of the neighbour", first.Done())
		for i := range neighbours {
			if err := r.Remove(ctxOf(t), neighbourLaunch(i, 1).Path); err != nil {
				t.Error(err)
			}
		}
	})
	return shimOf(first)
}

func neighbourLaunch(i int, n uint64) runtime.Launch {
	l := sh(fmt.Sprint(neighbour, i), n, neighbours[i])
	l.Log = runtime.Log{MaxSize: 100 << 10, Keep: 1}
	return l
}

// hides is a Runtime that does not list neighbours, and checks that an agent has their shim.
type hides struct {
	*Runtime
	t    testing.TB
	shim proc.Identity
}

func (h hides) List(ctx context.Context) ([]runtime.Observation, error) {
	all, err := h.Runtime.List(ctx)
	return slices.DeleteFunc(all, func(o runtime.Observation) bool { return strings.HasPrefix(o.Path, neighbour) }), err
}

func (h hides) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	s, err := h.Runtime.Start(ctx, l)
	if err == nil && keyOf(&l) == keyOf(&runtime.Launch{Path: neighbour}) && shimOf(s.(*session)) != h.shim {
		h.t.Errorf("%s has another shim than its neighbours", l.Path)
	}
	return s, err
}
