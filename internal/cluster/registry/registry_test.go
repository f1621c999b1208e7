package registry_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/nodename"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hash(b byte) (h [32]byte) {
	h[0] = b
	return h
}

func TestInfo(t *testing.T) {
	many := map[string]string{}
	for i := range nodename.MaxLabels + 1 {
		many[fmt.Sprint("l", i)] = ""
	}
	for want, i := range map[string]registry.Info{
		"": {Address: "10.0.0.1:7946", Capacity: 100_000,
			Labels: map[string]string{"gpu": "", "topology/zone": "eu-1_a.b"}},
		"expected HOST:PORT":            {Address: "10.0.0.1"},
		"the capacity is -1":            {Address: "a:1", Capacity: -1},
		"the capacity is 100001":        {Address: "a:1", Capacity: 100_001},
		"33 labels":                     {Address: "a:1", Labels: many},
		"the name is empty":             {Address: "a:1", Labels: map[string]string{"": "x"}},
		`label "a b": expected letters`: {Address: "a:1", Labels: map[string]string{"a b": "x"}},
		`label a = "x/y": expected`:     {Address: "a:1", Labels: map[string]string{"a": "x/y"}},
		"64 bytes":                      {Address: "a:1", Labels: map[string]string{"a": strings.Repeat("x", 64)}},
	} {
		if err := i.Check(); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A node joins, announces itself, is drained and removed; each step once, whatever the store answers.
func TestLife(t *testing.T) {
	for _, faults := range []storetest.Rates{{}, {Unknown: 0.4, Conflict: 0.4}} {
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New()
			defer inner.Close()
			s, ctx := storetest.NewFaults(inner, rand.Uint64(), faults), t.Context()
			view, err := registry.NewView(ctx, s, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			following, cancel := context.WithCancel(ctx)
			var run sync.WaitGroup
			run.Go(func() { view.Run(following) })
			defer run.Wait()
			defer cancel()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			must(registry.Join(ctx, s, "a", hash(1)))
			must(registry.Join(ctx, s, "a", hash(1))) // the answer was lost
			if err := registry.Join(ctx, s, "a", hash(2)); !errors.Is(err, registry.ErrTaken) {
				t.Errorf("another node with the name: %v", err)
			}
			if err := registry.Join(ctx, s, "A", hash(2)); err == nil {
				t.Error("a bad name")
			}
			must(registry.Join(ctx, s, "b", hash(2)))
			if err := errors.Join(view.Admit("a", hash(1)), view.Admit("b", hash(2))); err != nil {
				t.Error(err)
			}
			for name, h := range map[string][32]byte{"a": hash(2), "c": hash(1)} {
				if err := view.Admit(name, h); !errors.Is(err, registry.ErrRemoved) {
					t.Errorf("%s is admitted: %v", name, err)
				}
			}
			lease, err := inner.Acquire(ctx, registry.LeaseOf("a"), time.Minute)
			must(err)
			info := registry.Info{Address: "10.0.0.1:7946", Labels: map[string]string{"gpu": "yes"}, Capacity: 5,
				Version: "1"}
			must(registry.Announce(ctx, s, "a", lease.Fence(), info))
			must(registry.SetDraining(ctx, s, "a", true))
			must(registry.SetDraining(ctx, s, "a", true))
			nodes, changed := view.All()
			if len(nodes) != 2 || nodes[0].Name != "a" || !nodes[0].Draining || nodes[0].Epoch != lease.Fence().Epoch ||
				nodes[0].Address != info.Address || nodes[0].Labels["gpu"] != "yes" || nodes[1].Draining {
				t.Errorf("%+v", nodes)
			}
			must(registry.Withdraw(ctx, s, "a", lease.Fence()))
			ends := func() bool {
				all, err := registry.All(ctx, s)
				must(err)
				return all[0].Ends && all[0].Draining && all[0].Epoch == lease.Fence().Epoch
			}
			if !ends() {
				t.Error("it does not end")
			}
			must(registry.Announce(ctx, s, "a", lease.Fence(), info))
			if ends() {
				t.Error("it ends, although it has announced itself since")
			}
			must(lease.Release(ctx))
			if err := registry.Withdraw(ctx, s, "a", lease.Fence()); !errors.Is(err, store.ErrFenced) {
				t.Errorf("withdrawn without the lease: %v", err)
			}
			info.Capacity = 6
			if err := registry.Announce(ctx, s, "a", lease.Fence(), info); !errors.Is(err, store.ErrFenced) {
				t.Errorf("announced without the lease: %v", err)
			}
			if err := registry.Announce(ctx, s, "a", lease.Fence(), registry.Info{}); err == nil {
				t.Error("announced without an address")
			}
			must(registry.SetDraining(ctx, s, "a", false))
			<-changed
			must(registry.Remove(ctx, s, "a"))
			if _, there := view.Get("a"); there || view.Admit("a", hash(1)) == nil {
				t.Error("a is still there")
			}
			for _, err := range []error{registry.Remove(ctx, s, "a"), registry.SetDraining(ctx, s, "a", true),
				registry.Announce(ctx, s, "a", store.Fence{}, info)} {
				if !errors.Is(err, registry.ErrUnknown) {
					t.Errorf("after it was removed: %v", err)
				}
			}
		})
	}
}

// Records that cannot be read are left out, and can be removed.
func TestDamaged(t *testing.T) {
	s, ctx := memory.New(), t.Context()
	defer s.Close()
	if err := registry.Join(ctx, s, "good", hash(1)); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"json": "{", "empty": "", "key": `{"name":"key","key":"AAAA"}`, "name": `{"name":"other","key":"` + strings.Repeat("A", 43) + `="}`,
	} {
		op := store.Op{Kind: store.Put, Key: registry.Prefix + "/" + name, Value: []byte(value)}
		_, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{op})
		if err != nil {
			t.Fatal(err)
		}
		view, err := registry.NewView(ctx, s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if nodes, _ := view.All(); len(nodes) != 1 || nodes[0].Name != "good" {
			t.Errorf("%s: %+v", name, nodes)
		}
		for _, err := range []error{registry.Join(ctx, s, name, hash(1)), registry.SetDraining(ctx, s, name, true)} {
			if err == nil || !strings.Contains(err.Error(), "coppice node rm "+name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := registry.Remove(ctx, s, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// repeating is a store whose watches yield the change before again after each one.
type repeating struct{ store.Store }

func (r repeating) Watch(ctx context.Context, prefix string, from store.Rev) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		var last *store.Change
		for c, err := range r.Store.Watch(ctx, prefix, from) {
			if !yield(c, err) || last != nil && !yield(*last, nil) {
				return
			}
			last = &c
		}
	}
}

// A view that is interrupted, gets changes late and twice, and falls behind ends up with what the store has.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		seed := rand.Uint64()
		t.Log("seed", seed)
		s := storetest.NewFaults(inner, seed, storetest.Rates{Repeat: 0.3, Late: 0.3})
		view, err := registry.NewView(t.Context(), repeating{s}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		var run sync.WaitGroup
		run.Go(func() { view.Run(t.Context()) }) // ends with the store
		random := rand.New(rand.NewPCG(seed, 1))
		for i := range 300 {
			name := fmt.Sprint("n", random.IntN(5))
			if err := registry.Join(t.Context(), inner, name, hash(1)); err != nil {
				t.Fatal(err)
			}
			if err := registry.SetDraining(t.Context(), inner, name, random.IntN(2) == 0); err != nil {
				t.Fatal(err)
			}
			if random.IntN(3) == 0 {
				if err := registry.Remove(t.Context(), inner, name); err != nil {
					t.Fatal(err)
				}
			}
			if i%100 == 50 { // more than a watch keeps
				for range 10 {
					big := store.Op{Kind: store.Put, Key: "big", Value: make([]byte, store.MaxValue)}
					if _, err := inner.Apply(t.Context(), store.Fence{}, nil, []store.Op{big}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		time.Sleep(time.Minute) // simulated
		fresh, err := registry.NewView(t.Context(), inner, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		want, _ := fresh.All()
		if got, _ := view.All(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the view has %v, the store %v", got, want)
		}
		inner.Close()
		run.Wait()
	})
}
