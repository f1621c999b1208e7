package runtimetest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Lease is the lease of a node: a file with its deadline, which no daemon moves.
type Lease struct {
	File string
	t    testing.TB
	w    *deadline.Writer
}

// NewLease returns a lease without a file.
func NewLease(t testing.TB) *Lease {
	t.Helper()
	return NewLeaseIn(t, filepath.Join(t.TempDir(), "deadline"))
}

// NewLeaseIn returns a lease with a file that does not exist yet.
func NewLeaseIn(t testing.TB, file string) *Lease {
	t.Helper()
	w, err := deadline.NewWriter(file)
	if err != nil {
		t.Fatal(err)
	}
	return &Lease{file, t, w}
}

// Now returns the time on the clock of deadlines.
func (l *Lease) Now() deadline.Instant {
	l.t.Helper()
	now, err := deadline.Now()
	if err != nil {
		l.t.Fatal(err)
	}
	return now
}

// Renew moves the deadline, and returns it.
func (l *Lease) Renew(d time.Duration) deadline.Instant {
	l.t.Helper()
	until := l.Now().Add(d)
	if err := l.w.Move(until); err != nil {
		l.t.Fatal(err)
	}
	return until
}

// Keep renews the lease for d, again and again, until stop is called, which returns the last deadline.
func (l *Lease) Keep(d time.Duration) (stop func() deadline.Instant) {
	l.t.Helper()
	until := l.Renew(d)
	ended := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(d / 10):
			}
			now, err := deadline.Now()
			if err == nil {
				until = now.Add(d)
				err = l.w.Move(until)
			}
			if err != nil {
				l.t.Error(err)
			}
		}
	})
	stop = sync.OnceValue(func() deadline.Instant {
		close(ended)
		renewing.Wait()
		return until
	})
	l.t.Cleanup(func() { stop() })
	return stop
}

// Leave ends the deadline of a node that leaves the fleet, and returns when it did.
func (l *Lease) Leave(node string) deadline.Instant {
	l.t.Helper()
	if err := l.w.Leave(node); err != nil {
		l.t.Fatal(err)
	}
	return l.Now()
}

// Expire ends the deadline.
func (l *Lease) Expire() {
	l.t.Helper()
	if err := l.w.Expire(); err != nil {
		l.t.Fatal(err)
	}
}

// Lift ends all deadlines.
func (l *Lease) Lift() {
	l.t.Helper()
	if err := l.w.Lift(); err != nil {
		l.t.Fatal(err)
	}
}

// Damage replaces the file by something else.
func (l *Lease) Damage(text string) {
	l.t.Helper()
	if err := os.WriteFile(l.File, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// AwaitDeaths returns when processes have ended, which must be between two times.
func (l *Lease) AwaitDeaths(from, to deadline.Instant, ids ...proc.Identity) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	for _, id := range ids {
		if err := id.AwaitDeath(ctx); err != nil {
			id.Signal(syscall.SIGKILL)
			l.t.Fatalf("process %d: %v", id.PID, err)
		}
	}
	switch at := l.Now(); {
	case at < from:
		l.t.Errorf("they have ended %v too early", from.Until(at))
	case at > to:
		l.t.Errorf("they have ended %v too late", -to.Until(at))
	}
}

// MustRun checks that processes run.
func (l *Lease) MustRun(ids ...proc.Identity) {
	l.t.Helper()
	for _, id := range ids {
		if proc.Observe(id) != proc.Alive {
			l.t.Errorf("process %d has ended", id.PID)
		}
	}
}
