package deadline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// await calls Await, which must return within testTimeout.
func await(t *testing.T, w *Waiter) (at Instant, why error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if at, why = w.Await(ctx); ctx.Err() != nil {
		t.Fatal(why)
	}
	return at, why
}

// A deadline that moves is awaited to its end, which is told once. After that the next one is.
func TestAwait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deadline")
	writer := newWriter(t, path)
	const step = 50 * time.Millisecond
	until := now(t).Add(step)
	must(t, writer.Move(until))
	w := NewWaiter(path)
	moved := make(chan Instant)
	go func() {
		last := until
		for range 4 { // each time before it has come
			last = last.Add(step)
			if err := writer.Move(last); err != nil {
				t.Error(err)
			}
			Wait(nil, last.Add(-step/2))
		}
		moved <- last
	}()
	at, why := await(t, w)
	if until = <-moved; at != until || now(t) < until || !errors.Is(why, runtime.ErrDeadline) {
		t.Errorf("told %d at %d, the deadline is %d: %v", at, now(t), until, why)
	}
	if _, why := await(t, w); !errors.Is(why, ErrOver) {
		t.Errorf("after that: %v", why)
	}
	until = now(t).Add(step)
	must(t, writer.Move(until))
	if at, why := await(t, w); at != until || !errors.Is(why, runtime.ErrDeadline) {
		t.Errorf("the next one: told %d, the deadline is %d: %v", at, until, why)
	}
	must(t, writer.Lift())
	if _, why := await(t, w); !errors.Is(why, ErrNone) {
		t.Errorf("without a deadline: %v", why)
	}
}

// A file that is missing is no deadline, unless there was one: then that stands.
func TestAwaitMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deadline")
	if _, why := await(t, NewWaiter(path)); !errors.Is(why, ErrNone) {
		t.Errorf("without a file: %v", why)
	}
	until := now(t).Add(300 * time.Millisecond)
	must(t, newWriter(t, path).Move(until))
	w := NewWaiter(path)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, why := w.Await(ctx); !errors.Is(why, enough) {
		t.Errorf("%v", why)
	}
	must(t, os.Remove(path))
	if at, why := await(t, w); at != until || !errors.Is(why, runtime.ErrDeadline) {
		t.Errorf("removed: told %d, the deadline is %d: %v", at, until, why)
	}
}

// Agents without a limit of their grace period have one at the deadline.
func TestLastGrace(t *testing.T) {
	t.Parallel()
	for grace, want := range map[time.Duration]time.Duration{-1: proc.DefaultGrace, 0: proc.DefaultGrace, 1: 1} {
		if got := LastGrace(grace); got != want {
			t.Errorf("%v: %v, want %v", grace, got, want)
		}
	}
}
