package storetest

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// inTime runs f, in a bubble with simulated time if the store supports it.
func (b Backend) inTime(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		if b.Bubble {
			synctest.Test(t, f)
		} else {
			t.Parallel() // most of it is waiting
			f(t)
		}
	})
}

func acquire(t testing.TB, s store.Store, name string, ttl time.Duration) store.Lease {
	t.Helper()
	l, err := s.Acquire(context.Background(), name, ttl)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return l
}

func ended(l store.Lease) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// acquireEventually waits for a lost lease to become free.
func acquireEventually(t testing.TB, s store.Store, name string, ttl time.Duration) store.Lease {
	t.Helper()
	for range 1000 {
		l, err := s.Acquire(context.Background(), name, ttl)
		var held *store.HeldError
		switch {
		case err == nil:
			return l
		case !errors.As(err, &held):
			t.Fatalf("acquire: %v", err)
		}
		time.Sleep(max(time.Until(held.Until), time.Millisecond))
	}
	t.Fatal("lease is never free")
	return nil
}

func testFence(t *testing.T, b Backend) {
	ctx := context.Background()
	b.inTime(t, "epochs", func(t *testing.T) {
		s := b.open(t)
		_, err := s.Apply(ctx, store.Fence{Lease: "ctl", Epoch: 1}, nil, []store.Op{put("a", "0")})
		wantErr(t, "fence of a lease that was never held", err, store.ErrFenced)
		_, err = s.Apply(ctx, store.Fence{Lease: "ctl"}, nil, []store.Op{put("a", "0")})
		wantErr(t, "fence with epoch 0", err, store.ErrFenced)

		one := acquire(t, s, "ctl", b.TTL)
		other := acquire(t, s, "node/b", b.TTL)
		rev, err := s.Apply(ctx, one.Fence(), nil, []store.Op{put("a", "1")})
		if err != nil {
			t.Fatalf("apply of the holder: %v", err)
		}
		mixed := store.Fence{Lease: "ctl", Epoch: other.Fence().Epoch}
		if mixed != one.Fence() {
			_, err = s.Apply(ctx, mixed, nil, []store.Op{put("a", "0")})
			wantErr(t, "epoch of another lease", err, store.ErrFenced)
		}
		if err := one.Release(ctx); err != nil {
			t.Fatal(err)
		}
		_, err = s.Apply(ctx, one.Fence(), nil, []store.Op{put("a", "0")})
		wantErr(t, "fence of a released lease", err, store.ErrFenced)

		two := acquire(t, s, "ctl", b.TTL)
		if two.Fence().Epoch <= one.Fence().Epoch {
			t.Errorf("epoch %d after %d", two.Fence().Epoch, one.Fence().Epoch)
		}
		_, err = s.Apply(ctx, one.Fence(), nil, []store.Op{put("a", "0"), add("log", "0")})
		wantErr(t, "fence of the one before", err, store.ErrFenced)
		_, err = s.Apply(ctx, one.Fence(), nil, nil)
		wantErr(t, "stale fence without ops", err, store.ErrFenced)
		_, err = s.Apply(ctx, two.Fence(), []store.Cond{{Key: "a", Rev: rev}}, []store.Op{put("a", "2")})
		if err != nil {
			t.Errorf("apply of the successor: %v", err)
		}

		<-two.Done() // it is not renewed
		_, err = s.Apply(ctx, two.Fence(), nil, []store.Op{put("a", "0")})
		wantErr(t, "fence of an expired lease", err, store.ErrFenced)
		if got := text(all(t, s, "")); got != "a=2" {
			t.Errorf("fenced writes left traces: %s", got)
		}
		must(t, s, put("a", "3")) // without a fence
	})

	// Terms of many holders, each writing until it is fenced, never overlap.
	t.Run("terms", func(t *testing.T) {
		s := b.open(t)
		const holders, terms, writes = 4, 5, 5
		var wg sync.WaitGroup
		free := make(chan struct{}, 1)
		for range holders {
			wg.Go(func() {
				for range terms {
					l, err := s.Acquire(ctx, "ctl", time.Hour)
					for ; errors.Is(err, store.ErrHeld); l, err = s.Acquire(ctx, "ctl", time.Hour) {
						<-free // its holder signals when it is done
					}
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					late := make(chan struct{})
					for i := range writes {
						if i == writes-1 {
							go func() { defer close(late); l.Release(ctx) }() // in the middle of a write
						}
						_, err := s.Apply(ctx, l.Fence(), nil, []store.Op{add("terms", string(epochText(l)))})
						if err != nil && !(i == writes-1 && errors.Is(err, store.ErrFenced)) {
							t.Errorf("apply of the holder: %v", err)
						}
					}
					<-late
					select {
					case free <- struct{}{}:
					default:
					}
				}
			})
		}
		wg.Wait()
		last := ""
		seen := map[string]bool{}
		for _, r := range all(t, s, "terms") {
			if term := string(r.Value); term != last {
				if seen[term] {
					t.Fatalf("a write of term %s comes after one of term %s", term, last)
				}
				last, seen[term] = term, true
			}
		}
		if len(seen) != holders*terms {
			t.Errorf("%d terms, want %d", len(seen), holders*terms)
		}
	})
}

func epochText(l store.Lease) []byte {
	return []byte(store.SequenceKey("epoch", l.Fence().Epoch))
}

func testLease(t *testing.T, b Backend) {
	ctx := context.Background()
	b.inTime(t, "renewed", func(t *testing.T) {
		s := b.open(t)
		sent := time.Now()
		l := acquire(t, s, "l", b.TTL)
		if d := l.Deadline(); d.After(time.Now().Add(b.TTL)) || d.Before(sent) {
			t.Errorf("deadline %v after the call", d.Sub(sent))
		}
		_, err := s.Acquire(ctx, "l", b.TTL)
		wantErr(t, "second acquire", err, store.ErrHeld)
		var held *store.HeldError
		if !errors.As(err, &held) || held.Lease != "l" || held.Until.Before(sent) {
			t.Errorf("held: %+v", held)
		}
		for range 6 {
			time.Sleep(b.TTL / 2)
			before := time.Now()
			if err := l.Renew(ctx); err != nil {
				t.Fatalf("renew: %v", err)
			}
			if d := l.Deadline(); d.After(time.Now().Add(b.TTL)) || !d.After(before) {
				t.Errorf("deadline %v after the renewal", d.Sub(before))
			}
			if ended(l) {
				t.Fatal("lost in spite of renewals")
			}
		}
		if _, err := s.Apply(ctx, l.Fence(), nil, []store.Op{put("a", "1")}); err != nil {
			t.Errorf("apply after renewals: %v", err)
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		wantErr(t, "renew with an ended context", l.Renew(canceled), context.Canceled)
		if ended(l) {
			t.Error("lost by a renewal that was not made")
		}
		if err := l.Release(ctx); err != nil {
			t.Errorf("release: %v", err)
		}
		<-l.Done()
		wantErr(t, "renew after release", l.Renew(ctx), store.ErrFenced)
		if err := l.Release(ctx); err != nil {
			t.Errorf("second release: %v", err)
		}
		acquire(t, s, "l", b.TTL) // free at once
	})

	b.inTime(t, "expired", func(t *testing.T) {
		s := b.open(t)
		l := acquire(t, s, "l", b.TTL)
		deadline := l.Deadline()
		<-l.Done()
		if now := time.Now(); now.Before(deadline.Add(-b.TTL / 2)) {
			t.Errorf("lost %v before the deadline", deadline.Sub(now))
		} else if late := now.Sub(deadline); late > b.TTL/4 {
			t.Errorf("noticed %v after the deadline", late)
		}
		wantErr(t, "renew of a lost lease", l.Renew(ctx), store.ErrFenced)
		next := acquireEventually(t, s, "l", b.TTL)
		if next.Fence().Epoch <= l.Fence().Epoch {
			t.Errorf("epoch %d after %d", next.Fence().Epoch, l.Fence().Epoch)
		}
		if err := l.Release(ctx); err != nil {
			t.Errorf("release of a lost lease: %v", err)
		}
		if ended(next) {
			t.Error("the release of a lost lease ended its successor's")
		}
		wantErr(t, "renew beside a successor", l.Renew(ctx), store.ErrFenced)
	})

	t.Run("race", func(t *testing.T) {
		s := b.open(t)
		const n = 32
		var mu sync.Mutex
		var won []store.Lease
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				l, err := s.Acquire(ctx, "l", time.Minute)
				if err == nil {
					mu.Lock()
					won = append(won, l)
					mu.Unlock()
				} else if !errors.Is(err, store.ErrHeld) {
					t.Errorf("acquire: %v", err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Errorf("%d of %d hold the lease", len(won), n)
		}
	})
}

func testClose(t *testing.T, b Backend) {
	ctx, s := context.Background(), b.open(t)
	l := acquire(t, s, "l", time.Minute)
	must(t, s, put("a", "1"))
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	<-l.Done()
	wantErr(t, "renew", l.Renew(ctx), store.ErrFenced)
	_, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{put("a", "2")})
	wantErr(t, "apply", err, store.ErrClosed)
	_, _, err = s.Snapshot(ctx, "")
	wantErr(t, "snapshot", err, store.ErrClosed)
	_, _, err = s.Scan(ctx, "", "", 1)
	wantErr(t, "scan", err, store.ErrClosed)
	_, err = s.Acquire(ctx, "m", time.Minute)
	wantErr(t, "acquire", err, store.ErrClosed)
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}

	// Close in the middle of writes: each is either done or refused, none hangs.
	s = b.open(t)
	var wg sync.WaitGroup
	begun := make(chan struct{}, 8)
	for range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				_, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{add("log", "x")})
				if i == 0 {
					begun <- struct{}{}
				}
				if err != nil {
					wantErr(t, "apply while closing", err, store.ErrClosed)
					return
				}
			}
		})
	}
	for range 8 {
		<-begun
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	wg.Wait()
}

func testReopen(t *testing.T, b Backend) {
	ctx := context.Background()
	dir, err := os.MkdirTemp(t.TempDir(), "store")
	if err != nil {
		t.Fatal(err)
	}
	s := b.openDir(t, dir)
	must(t, s, put("a", "1"), add("log", "1"), put("gone", "x"))
	must(t, s, add("log", "2"), del("gone"))
	log := all(t, s, "log")
	rev := must(t, s, del(log[1].Key))
	before := all(t, s, "")
	l := acquire(t, s, "l", time.Minute)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = b.openDir(t, dir)
	after, now, err := s.Snapshot(ctx, "")
	if err != nil || text(after) != text(before) {
		t.Fatalf("after reopening: %s, %v; before: %s", text(after), err, text(before))
	}
	for i := range after {
		if after[i].Rev != before[i].Rev {
			t.Errorf("%s had revision %d, has %d", after[i].Key, before[i].Rev, after[i].Rev)
		}
	}
	if now < rev {
		t.Errorf("revision %d after reopening at %d", now, rev)
	}
	for c, err := range s.Watch(t.Context(), "", 0) {
		if err != nil {
			wantErr(t, "watch from before", err, store.ErrCompacted)
		} else if c.Rev == rev {
			break // it kept its history, which is as good
		}
	}
	if r := must(t, s, put("a", "2"), add("log", "3")); r <= now {
		t.Errorf("revision %d after %d", r, now)
	}
	two, _ := store.ParseSequenceKey("log", log[1].Key)
	log = all(t, s, "log")
	if three, ok := store.ParseSequenceKey("log", log[1].Key); !ok || three <= two {
		t.Errorf("appended record got %s after number %d", log[1].Key, two)
	}
	next := acquireEventually(t, s, "l", time.Minute)
	if next.Fence().Epoch <= l.Fence().Epoch {
		t.Errorf("epoch %d after %d", next.Fence().Epoch, l.Fence().Epoch)
	}
	_, err = s.Apply(ctx, l.Fence(), nil, []store.Op{put("a", "0")})
	wantErr(t, "fence from before", err, store.ErrFenced)
}
