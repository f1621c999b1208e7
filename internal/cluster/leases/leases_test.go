package leases_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/cluster/leases"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// teller is a store that tells what the test says, and notes at which leases somebody looks.
type teller struct {
	store.Store
	tells chan string

	mu     sync.Mutex
	silent bool // it does not answer
	looks  []string
}

func (s *teller) FollowLeases(ctx context.Context, changed func(string)) error {
	for {
		select {
		case name := <-s.tells:
			changed(name)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *teller) Apply(ctx context.Context, f store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	s.mu.Lock()
	s.looks = append(s.looks, f.Lease)
	silent := s.silent
	s.mu.Unlock()
	if silent {
		return 0, store.ErrUnavailable
	}
	return s.Store.Apply(ctx, f, conds, ops)
}

func (s *teller) setSilent(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = on
}

// looked returns at which leases somebody has looked since the last call.
func (s *teller) looked() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.looks
	s.looks = nil
	slices.Sort(all)
	return all
}

// fleet has nodes with leases, and a tracker that runs and has looked at them.
type fleet struct {
	*teller
	*leases.Tracker
	held map[string]store.Lease

	known   sync.Mutex
	nodes   []registry.Node
	changed chan struct{}
}

// all returns what the registry knows.
func (f *fleet) all() ([]registry.Node, <-chan struct{}) {
	f.known.Lock()
	defer f.known.Unlock()
	return slices.Clone(f.nodes), f.changed
}

// announce has a node with a new lease come into the registry, in place of what that had of it.
func (f *fleet) announce(name string, epoch uint64) {
	f.known.Lock()
	defer f.known.Unlock()
	f.nodes = slices.DeleteFunc(f.nodes, func(n registry.Node) bool { return n.Name == name })
	f.nodes = append(f.nodes, registry.Node{Name: name, Epoch: epoch})
	close(f.changed)
	f.changed = make(chan struct{})
}

func start(t *testing.T, names ...string) *fleet {
	f := &fleet{
		teller: &teller{Store: memory.New(), tells: make(chan string)}, held: map[string]store.Lease{},
		nodes: []registry.Node{{Name: "joined"}}, changed: make(chan struct{}),
	}
	for _, name := range names {
		l, err := f.Acquire(t.Context(), registry.LeaseOf(name), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		f.held[name] = l
		f.nodes = append(f.nodes, registry.Node{Name: name, Epoch: l.Fence().Epoch})
	}
	f.Tracker = leases.New(f.teller, f.all)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		f.Close()
	})
	f.looked()
	return f
}

// release ends the lease of a node. The tracker is not told.
func (f *fleet) release(t *testing.T, name string) {
	if err := f.held[name].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) of(name string) leases.Lease {
	return leases.Lease{Node: name, Epoch: f.held[name].Fence().Epoch}
}

// It looks at the leases of which the store tells, and at all when something may have been missed.
func TestTold(t *testing.T) {
	for _, c := range []struct {
		tell        string
		looks, ends []string
	}{
		{"nodes/b", []string{"nodes/b"}, []string{"b"}},
		{"nodes/a", []string{"nodes/a"}, nil},
		{"", []string{"nodes/a", "nodes/b", "nodes/c"}, []string{"b", "c"}},
		{"controller", nil, nil},
		{"nodes/unknown", nil, nil},
		{"nodes/joined", nil, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := start(t, "a", "b", "c")
			f.release(t, "b")
			f.release(t, "c")
			changed := f.Changed()
			f.tells <- c.tell
			if got := f.looked(); !slices.Equal(got, c.looks) {
				t.Errorf("told of %q, it looks at %q, want %q", c.tell, got, c.looks)
			}
			for name := range f.held {
				_, ended := f.Ended(f.of(name))
				if ended != slices.Contains(c.ends, name) {
					t.Errorf("told of %q, that of %s has ended: %v", c.tell, name, ended)
				}
			}
			select {
			case <-changed:
				if c.ends == nil {
					t.Errorf("told of %q, it says that something has ended", c.tell)
				}
			default:
				if c.ends != nil {
					t.Errorf("told of %q, it does not say that something has ended", c.tell)
				}
			}
		})
	}
}

// It looks at a lease that the registry has only now, which may have ended before; and at no other then.
func TestNewLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, "a", "b")
		f.release(t, "b")
		next, err := f.Acquire(t.Context(), registry.LeaseOf("b"), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.tells <- "nodes/b" // the registry has the first one
		f.looked()
		f.announce("b", next.Fence().Epoch)
		if got := f.looked(); !slices.Equal(got, []string{"nodes/b"}) {
			t.Errorf("it looks at %q", got)
		}
		for _, epoch := range []uint64{f.of("b").Epoch, next.Fence().Epoch} {
			if _, ended := f.Ended(leases.Lease{Node: "b", Epoch: epoch}); !ended {
				t.Errorf("lease %d of b has not ended", epoch)
			}
		}
		f.announce("b", next.Fence().Epoch)
		if got := f.looked(); got != nil {
			t.Errorf("it looks again at %q", got)
		}
	})
}

// It looks again until the store has answered, and notes the first time at which an end was known.
func TestSilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, "a", "b")
		f.release(t, "a")
		f.setSilent(true)
		f.tells <- "nodes/a"
		time.Sleep(time.Minute)
		if got := f.looked(); len(got) < 60 || slices.Contains(got, "nodes/b") {
			t.Errorf("it has looked %d times in a minute: %q", len(got), slices.Compact(got))
		}
		if f.Look(t.Context(), []leases.Lease{f.of("a")}) {
			t.Error("the store is said to have answered")
		}
		f.setSilent(false)
		time.Sleep(time.Second)
		at, ended := f.Ended(f.of("a"))
		if !ended || time.Since(at) > time.Second {
			t.Fatalf("%v, %v", at, ended)
		}
		f.looked()
		time.Sleep(30 * time.Minute)
		f.tells <- "nodes/a"
		if got := f.looked(); got != nil {
			t.Errorf("it looks again: %q", got)
		}
		if !f.Look(t.Context(), []leases.Lease{f.of("a"), f.of("b"), {Node: "gone", Epoch: 1}}) {
			t.Error("the store is said not to have answered")
		}
		if again, _ := f.Ended(f.of("a")); again != at {
			t.Errorf("it has ended at %v, and at %v", at, again)
		}
		if _, ended := f.Ended(f.of("b")); ended {
			t.Error("that of b has ended")
		}
		if _, ended := f.Ended(leases.Lease{Node: "gone", Epoch: 1}); !ended {
			t.Error("that of a node that is not known has not ended")
		}
	})
}

// With a store that does not tell, Run has nothing to do.
func TestNotTold(t *testing.T) {
	s := memory.New()
	defer s.Close()
	tracker := leases.New(s, nil)
	if tracker.IsTold() {
		t.Error("a store in memory is said to tell")
	}
	tracker.Run(t.Context())
	if !leases.New(&teller{Store: s}, nil).IsTold() {
		t.Error("a store that tells is said not to")
	}
}
