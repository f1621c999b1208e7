package election_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 10 * time.Second

func options(s store.Store) election.Options {
	return election.Options{Store: s, Name: "controller", TTL: ttl, Logger: slog.New(slog.DiscardHandler)}
}

var errFault = errors.New("fault: no answer")

// unreachable is a store whose leases cannot be renewed while it is cut off.
type unreachable struct {
	store.Store
	cut atomic.Bool
}

type cutLease struct {
	store.Lease
	s *unreachable
}

func (s *unreachable) Acquire(ctx context.Context, name string, ttl time.Duration) (store.Lease, error) {
	if s.cut.Load() {
		return nil, errFault
	}
	l, err := s.Store.Acquire(ctx, name, ttl)
	if err != nil {
		return nil, err
	}
	return cutLease{l, s}, nil
}

func (l cutLease) Renew(ctx context.Context) error {
	if l.s.cut.Load() {
		return errFault
	}
	return l.Lease.Renew(ctx)
}

// Many candidates, of which some are cut off at times: never two of them work at the same time, and the next one does
// within the ttl and 2 s.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		defer inner.Close()
		seed := rand.Uint64()
		t.Log("seed", seed)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		working, terms, last := 0, 0, uint64(0)
		idleSince, twoSince := time.Now(), time.Time{}
		var candidates sync.WaitGroup
		for i := range 4 {
			random, cuts := rand.New(rand.NewPCG(seed, uint64(i))), rand.New(rand.NewPCG(seed, uint64(i+10)))
			s := &unreachable{Store: inner}
			candidates.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(time.Duration(cuts.Int64N(int64(2 * ttl))))
					s.cut.Store(i > 0 && cuts.IntN(2) == 0) // one can always take over
				}
			})
			candidates.Go(func() {
				for ctx.Err() == nil {
					err := election.Run(ctx, options(s), func(ctx context.Context, l store.Lease) (bool, error) {
						mu.Lock()
						working++
						terms++
						if working > 1 { // for no time: the deadline is now
							twoSince = time.Now()
						}
						if epoch := l.Fence().Epoch; epoch <= last {
							t.Errorf("epoch %d after %d", epoch, last)
						} else if idle := time.Since(idleSince); working == 1 && idle > ttl+2*time.Second {
							t.Errorf("no work was done for %v", idle)
						}
						last = l.Fence().Epoch
						mu.Unlock()
						select {
						case <-ctx.Done():
						case <-time.After(time.Duration(random.Int64N(int64(5 * ttl)))):
						}
						if lost := errors.Is(context.Cause(ctx), election.ErrLost); lost &&
							time.Now().Before(l.Deadline()) {
							t.Error("told that the lease is lost before its deadline")
						}
						mu.Lock()
						if both := time.Since(twoSince); working > 1 && both > 0 {
							t.Errorf("%d have worked for %v", working, both)
						}
						working--
						idleSince = time.Now()
						mu.Unlock()
						return false, nil
					})
					if err != nil && ctx.Err() == nil {
						t.Errorf("run: %v", err)
					}
				}
			})
		}
		time.Sleep(30 * time.Minute)
		cancel()
		candidates.Wait()
		if terms < 30 {
			t.Errorf("%d terms in half an hour", terms)
		}
	})
}

// Work whose lease is lost is told so at the deadline, and begins again when the store can be reached.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		defer inner.Close()
		s := &unreachable{Store: inner}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := options(s)
		var deadlines []time.Time
		o.Renewed = func(l store.Lease) { deadlines = append(deadlines, l.Deadline()) }
		terms := 0
		err := election.Run(ctx, o, func(ctx context.Context, l store.Lease) (bool, error) {
			if terms++; terms == 2 {
				return false, errors.New("done")
			}
			time.Sleep(time.Minute)
			if ctx.Err() != nil {
				t.Error("lost, although it was renewed")
			}
			s.cut.Store(true)
			<-ctx.Done()
			late := time.Since(l.Deadline())
			if !errors.Is(context.Cause(ctx), election.ErrLost) || late < 0 || late > time.Second {
				t.Errorf("%v, %v after the deadline", context.Cause(ctx), late)
			}
			if last := deadlines[len(deadlines)-1]; !last.Equal(l.Deadline()) {
				t.Errorf("the last deadline was said to be %v, it is %v", last, l.Deadline())
			}
			time.AfterFunc(time.Hour, func() { s.cut.Store(false) })
			return false, nil
		})
		if terms != 2 || err == nil || err.Error() != "done" {
			t.Errorf("%d terms, %v", terms, err)
		}
		for i := 1; i < len(deadlines); i++ {
			if !deadlines[i].After(deadlines[i-1]) {
				t.Errorf("deadline %v after %v", deadlines[i], deadlines[i-1])
			}
		}
		if len(deadlines) < 18 {
			t.Errorf("%d renewals in a minute", len(deadlines))
		}
	})
}

// Work that takes its time to end keeps the lease meanwhile, and then the next one need not wait for it to expire.
func TestSlowEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		var ended time.Time
		run.Go(func() {
			err := election.Run(ctx, options(s), func(ctx context.Context, l store.Lease) (bool, error) {
				<-ctx.Done()
				time.Sleep(5 * ttl)
				if _, err := s.Apply(t.Context(), l.Fence(), nil, nil); err != nil {
					t.Errorf("while it ends: %v", err)
				}
				ended = time.Now()
				return false, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		o := options(s)
		waits := 0
		o.Waiting = func(held *store.HeldError) { waits++ }
		run.Go(func() {
			err := election.Run(t.Context(), o, func(context.Context, store.Lease) (bool, error) { return false, nil })
			if err != nil || ended.IsZero() || time.Since(ended) > time.Second || waits != 1 {
				t.Errorf("%v; %v after the first one, told %d times that it waits", err, time.Since(ended), waits)
			}
		})
		time.Sleep(time.Minute)
		cancel()
		run.Wait()
	})
}

// A process that leaves its lease to the next one does not interrupt it.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		o := options(s)
		var fence store.Fence
		if err := election.Run(t.Context(), o, func(_ context.Context, l store.Lease) (bool, error) {
			fence = l.Fence()
			return true, nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl / 2)
		o.Resume = fence
		begun := time.Now()
		err := election.Run(t.Context(), o, func(_ context.Context, l store.Lease) (bool, error) {
			if l.Fence() != fence || time.Since(begun) > 0 {
				t.Errorf("%v after %v, was %v", l.Fence(), time.Since(begun), fence)
			}
			time.Sleep(3 * ttl)
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * ttl) // too late
		err = election.Run(t.Context(), o, func(_ context.Context, l store.Lease) (bool, error) {
			if l.Fence().Epoch <= fence.Epoch {
				t.Errorf("%v after %v expired", l.Fence(), fence)
			}
			return false, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// Outcomes that are unknown, and a context that ends while another one works.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		defer inner.Close()
		s := storetest.NewFaults(inner, rand.Uint64(), storetest.Rates{Unknown: 0.5})
		for range 100 {
			begun := time.Now()
			err := election.Run(t.Context(), options(s), func(context.Context, store.Lease) (bool, error) {
				if waited := time.Since(begun); waited > 10*ttl {
					t.Errorf("began after %v", waited)
				}
				return false, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if c := s.Counts(); c.UnknownDone == 0 || c.UnknownNotDone == 0 {
			t.Errorf("not everything was tried: %+v", c)
		}
		if _, err := inner.Acquire(t.Context(), "controller", time.Hour); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := election.Run(ctx, options(inner), func(context.Context, store.Lease) (bool, error) {
			t.Error("there are two")
			return false, nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while another one works: %v", err)
		}
		if err := inner.Close(); err != nil {
			t.Fatal(err)
		}
		if err := election.Run(t.Context(), options(inner), nil); !errors.Is(err, store.ErrClosed) {
			t.Errorf("with a closed store: %v", err)
		}
	})
}

// The deadline of a lease is counted from when it was asked for: Asking comes before each call of the store that leads
// to a deadline.
func TestAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		o := options(s)
		var asked time.Time
		renewals := 0
		o.Asking = func() { asked = time.Now() }
		o.Renewed = func(l store.Lease) {
			renewals++
			if late := l.Deadline().Sub(asked.Add(ttl)); late != 0 {
				t.Errorf("renewal %d: the deadline is %v later than what was asked for", renewals, late)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*ttl)
		defer cancel()
		fence := store.Fence{}
		for range 2 { // it is acquired, and resumed
			o.Resume = fence
			err := election.Run(ctx, o, func(_ context.Context, l store.Lease) (bool, error) {
				fence = l.Fence()
				time.Sleep(ttl)
				return true, nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		if renewals < 6 {
			t.Errorf("%d renewals", renewals)
		}
	})
}
