package join

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/store"
)

// After ten wrong tokens none is checked, over TLS and for all machines, also if they come at once.
func TestWrongTokensAreLimited(t *testing.T) {
	f := newFleet(t)
	valid, wrong := f.token(t), tokenFor(t, f.Certificate(), f.address)
	results := make(chan error, 3*maxFailed)
	for range cap(results) {
		key := clustertest.Key(t)
		go func() {
			_, _, err := Join(t.Context(), wrong, "a", key)
			results <- err
		}()
	}
	refused := 0
	for range cap(results) {
		switch err := <-results; {
		case errors.Is(err, jointoken.ErrRefused):
			refused++
		case err == nil || !strings.Contains(err.Error(), "status 429: too many attempts to join have failed; try "):
			t.Error(err)
		}
	}
	if refused != maxFailed {
		t.Errorf("%d tokens were checked", refused)
	}
	_, _, err := Join(t.Context(), valid, "a", clustertest.Key(t))
	if err == nil || !strings.Contains(err.Error(), "429") {
		t.Error(err)
	}
	if n := strings.Count(f.log.String(), "\n"); n != maxFailed {
		t.Errorf("%d lines in the log:\n%s", n, f.log)
	}
	f.checkLog(t, wrong)
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, checked := newLimiter(), 0
		do := func(err error) error {
			return l.do(t.Context(), func() error { checked++; return err })
		}
		for n := range maxFailed {
			for range 3 {
				if err := do(nil); err != nil {
					t.Errorf("%d: %v", n, err)
				}
			}
			if err := do(store.ErrClosed); !errors.Is(err, store.ErrClosed) {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		limited := func(seconds int) {
			t.Helper()
			before := checked
			if err := new(limitError); !errors.As(do(nil), &err) || err.seconds != seconds || checked != before {
				t.Errorf("%+v, want %d s", err, seconds)
			}
		}
		limited(50)
		time.Sleep(49*time.Second + time.Millisecond)
		limited(1)
		time.Sleep(time.Second)
		if err := do(nil); err != nil {
			t.Error(err)
		}
		if err := do(store.ErrClosed); !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
		limited(1) // until the second of those at the beginning is over
		time.Sleep(time.Hour)
		if err := do(nil); err != nil || len(l.failed) > 0 {
			t.Errorf("%v, %v", err, l.failed)
		}
		// A check that goes on delays others, but not for ever.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		release := make(chan struct{})
		go l.do(t.Context(), func() error { <-release; return nil })
		synctest.Wait()
		if err := l.do(ctx, func() error { t.Error("checked at once"); return nil }); !errors.Is(err, errBusy) {
			t.Error(err)
		}
		close(release)
	})
}
