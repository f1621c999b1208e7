package storetest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

func testResume(t *testing.T, b Backend) {
	ctx := context.Background()
	// Of two Leases with the same fence, the one that has resumed it counts.
	b.inTime(t, "taken over", func(t *testing.T) {
		s := b.open(t)
		old := acquire(t, s, "l", b.TTL)
		sent := time.Now()
		next, err := s.Resume(ctx, old.Fence(), b.TTL)
		if err != nil {
			t.Fatal(err)
		}
		if next.Fence() != old.Fence() || next.Deadline().Before(sent.Add(b.TTL)) ||
			next.Deadline().After(time.Now().Add(b.TTL)) {
			t.Errorf("resumed with %v until %v, was %v", next.Fence(), next.Deadline().Sub(sent), old.Fence())
		}
		<-old.Done()
		wantErr(t, "renew of the old one", old.Renew(ctx), store.ErrFenced)
		if err := old.Release(ctx); err != nil {
			t.Errorf("release of the old one: %v", err)
		}
		old.Abandon()
		for range 3 {
			time.Sleep(b.TTL / 2)
			if err := next.Renew(ctx); err != nil || ended(next) {
				t.Fatalf("renew: %v", err)
			}
		}
		if _, err := s.Apply(ctx, next.Fence(), nil, []store.Op{put("a", "1")}); err != nil {
			t.Errorf("apply: %v", err)
		}
		wantErr(t, "second acquire", second(s.Acquire(ctx, "l", b.TTL)), store.ErrHeld)
		if err := next.Release(ctx); err != nil {
			t.Error(err)
		}
		wantErr(t, "resume after the release", second(s.Resume(ctx, next.Fence(), b.TTL)), store.ErrFenced)
		acquire(t, s, "l", b.TTL)
	})

	b.inTime(t, "abandoned", func(t *testing.T) {
		s := b.open(t)
		l := acquire(t, s, "l", b.TTL)
		l.Abandon()
		l.Abandon()
		<-l.Done()
		wantErr(t, "renew", l.Renew(ctx), store.ErrFenced)
		if err := l.Release(ctx); err != nil {
			t.Errorf("release: %v", err)
		}
		wantErr(t, "acquire", second(s.Acquire(ctx, "l", b.TTL)), store.ErrHeld)
		next, err := s.Resume(ctx, l.Fence(), b.TTL)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Renew(ctx); err != nil {
			t.Error(err)
		}
		next.Abandon()
		// It is not resumed this time.
		third := acquireEventually(t, s, "l", b.TTL)
		if third.Fence().Epoch <= l.Fence().Epoch {
			t.Errorf("epoch %d after %d", third.Fence().Epoch, l.Fence().Epoch)
		}
		wantErr(t, "resume beside a successor", second(s.Resume(ctx, l.Fence(), b.TTL)), store.ErrFenced)
		if ended(third) {
			t.Error("that ended the lease of the successor")
		}
	})

	t.Run("refused", func(t *testing.T) {
		s := b.open(t)
		l := acquire(t, s, "l", time.Minute)
		for name, f := range map[string]store.Fence{
			"a lease that was never held": {Lease: "m", Epoch: l.Fence().Epoch},
			"another epoch":               {Lease: "l", Epoch: l.Fence().Epoch + 1},
			"epoch 0":                     {Lease: "l"},
		} {
			wantErr(t, name, second(s.Resume(ctx, f, time.Minute)), store.ErrFenced)
		}
		wantErr(t, "no name", second(s.Resume(ctx, store.Fence{Epoch: 1}, time.Minute)), store.ErrInvalid)
		wantErr(t, "no ttl", second(s.Resume(ctx, l.Fence(), 0)), store.ErrInvalid)
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		wantErr(t, "ended context", second(s.Resume(canceled, l.Fence(), time.Minute)), context.Canceled)
		if ended(l) {
			t.Error("one of them ended the lease")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "closed store", second(s.Resume(ctx, l.Fence(), time.Minute)), store.ErrClosed)
	})

	if !b.Durable { // it ends with its process
		return
	}
	// Another process takes over.
	t.Run("reopened", func(t *testing.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "store")
		if err != nil {
			t.Fatal(err)
		}
		s := b.openDir(t, dir)
		l := acquire(t, s, "l", time.Minute)
		l.Abandon()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = b.openDir(t, dir)
		next, err := s.Resume(ctx, l.Fence(), time.Minute)
		if !b.Lasting {
			wantErr(t, "resume of a lease that ended with its process", err, store.ErrFenced)
			acquireEventually(t, s, "l", time.Minute)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(ctx, next.Fence(), nil, []store.Op{put("a", "1")}); err != nil {
			t.Errorf("apply: %v", err)
		}
		wantErr(t, "acquire", second(s.Acquire(ctx, "l", b.TTL)), store.ErrHeld)
	})
}
