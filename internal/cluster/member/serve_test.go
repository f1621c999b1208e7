package member

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/authority"
	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// broken is a store that cannot be read while it says so.
type broken struct {
	store.Store
	is atomic.Bool
}

func (b *broken) Snapshot(ctx context.Context, prefix string) ([]store.Record, store.Rev, error) {
	if b.is.Load() {
		return nil, 0, store.ErrUnavailable
	}
	return b.Store.Snapshot(ctx, prefix)
}

// A certificate is renewed when two thirds of its life are over, or within an hour of the return of the store.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &broken{Store: memory.New()}
		defer s.Close()
		dir := nodeDir(t)
		m := mustInit(t, dir, s, location(t, "1"), here("a"))
		first := m.Current()
		var log clustertest.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			m.Run(ctx, s, slog.New(slog.NewTextHandler(&log, nil)))
			close(ended)
		}()
		time.Sleep(time.Until(first.RenewAt()))
		synctest.Wait()
		if m.Current() != first {
			t.Error("renewed early")
		}
		s.is.Store(true)
		time.Sleep(26 * time.Hour)
		synctest.Wait()
		if n := strings.Count(log.String(), "cannot renew the certificate"); m.Current() != first || n != 26 {
			t.Errorf("without the store, %d errors: %s", n, log.String())
		}
		s.is.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		next := m.Current()
		if next == first || next.KeyHash() != first.KeyHash() || !next.NotAfter().After(first.NotAfter()) {
			t.Errorf("not renewed: until %v, log: %s", next.NotAfter(), log.String())
		}
		if again, err := Load(dir); err != nil || !again.Current().NotAfter().Equal(next.NotAfter()) {
			t.Errorf("%v", err)
		}
		cancel()
		<-ended
	})
}

func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, other := memory.New(), memory.New()
		defer s.Close()
		defer other.Close()
		dir := nodeDir(t)
		made := mustInit(t, dir, s, location(t, "1"), here("a"))
		time.Sleep(authority.Life + time.Hour) // the machine was off
		m, err := Load(dir)
		if err != nil || m.Current().CheckTime(time.Now()) == nil {
			t.Fatalf("%v", err)
		}
		if _, _, err := authority.Ensure(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		renewed, err := m.Renew(t.Context(), other, time.Now())
		if renewed || m.Current().NotAfter() != made.Current().NotAfter() {
			t.Error("renewed by another fleet")
		}
		wantError(t, "another fleet", err, "not that of node a", "expires at")
		if renewed, err := m.Renew(t.Context(), s, time.Now()); err != nil || !renewed {
			t.Errorf("%v, %v", renewed, err)
		}
		if renewed, err := m.Renew(t.Context(), s, time.Now()); err != nil || renewed {
			t.Errorf("twice: %v, %v", renewed, err)
		}
		if err := m.Current().CheckTime(time.Now()); err != nil {
			t.Error(err)
		}
		if again, err := Load(dir); err != nil || again.Current().CheckTime(time.Now()) != nil {
			t.Errorf("%v", err)
		}

		// A repeated init renews as well, and a disk that takes no file loses no node.
		time.Sleep(authority.Life + time.Hour)
		mustInit(t, dir, s, location(t, "1"), here("a"))
		again, err := Load(dir)
		if err != nil || again.Current().CheckTime(time.Now()) != nil {
			t.Errorf("%v", err)
		}
		time.Sleep(authority.Life + time.Hour)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		renewed, err = again.Renew(t.Context(), s, time.Now())
		wantError(t, "without a disk", err, "will be lost")
		if !renewed || !errors.Is(err, fs.ErrNotExist) || again.Current().CheckTime(time.Now()) != nil {
			t.Errorf("%v, %v", renewed, err)
		}
	})
}

// A clock that is behind is an error, and no reason for a new certificate.
func TestClockBehind(t *testing.T) {
	var files map[string]string
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		time.Sleep(365 * 24 * time.Hour)
		dir := nodeDir(t)
		mustInit(t, dir, s, location(t, "1"), here("a"))
		files = filesOf(t, dir)
	})
	synctest.Test(t, func(t *testing.T) {
		dir := nodeDir(t)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Load(dir)
		if !errors.Is(err, pki.ErrNotYetValid) {
			t.Error(err)
		}
	})
}
