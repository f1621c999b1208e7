package deadline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds every wait of these tests; only a failure takes that long.
const testTimeout = 20 * time.Second

// end is a call of over.
type end struct {
	at, now Instant
	why     error
}

// watch returns a Watcher of a file, and what it tells.
func watch(t *testing.T, path string) (*Watcher, <-chan end) {
	t.Helper()
	ends := make(chan end, 10)
	w := Watch(path, func(at Instant, why error) {
		n, err := Now()
		ends <- end{at, n, errors.Join(why, err)}
	})
	t.Cleanup(w.Close)
	return w, ends
}

func next(t *testing.T, ends <-chan end) end {
	t.Helper()
	select {
	case e := <-ends:
		if !errors.Is(e.why, runtime.ErrDeadline) {
			t.Errorf("%v", e.why)
		}
		return e
	case <-time.After(testTimeout):
		t.Fatal("the deadline is not told")
		return end{}
	}
}

// A deadline that moves ends nothing. The last one does, when it has come, and once.
func TestWatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deadline")
	writer := newWriter(t, path)
	const step = 50 * time.Millisecond
	until := now(t).Add(step)
	must(t, writer.Move(until))
	w, ends := watch(t, path)
	for range 4 { // each time before it has come
		until = until.Add(step)
		must(t, writer.Move(until))
		Wait(nil, until.Add(-step/2))
	}
	if e := next(t, ends); e.at != until || e.now < until {
		t.Errorf("told %d at %d, the deadline is %d", e.at, e.now, until)
	}
	for _, err := range []error{w.Check(), w.Passed()} {
		if !errors.Is(err, runtime.ErrFenced) {
			t.Errorf("after the deadline: %v", err)
		}
	}
	until = now(t).Add(2 * step)
	must(t, writer.Move(until))
	must(t, w.Check())
	must(t, w.Passed())
	if e := next(t, ends); e.at != until || e.now < until {
		t.Errorf("told %d at %d, the second deadline is %d", e.at, e.now, until)
	}
	if len(ends) > 0 {
		t.Errorf("told again: %+v", <-ends)
	}
}

// A process that has read the file keeps what it knows when the file is damaged. Another one takes it as over.
func TestWatchDamaged(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "deadline")
			until := now(t).Add(200 * time.Millisecond)
			must(t, newWriter(t, path).Move(until))
			w, ends := watch(t, path)
			must(t, damage.do(path))
			if err := w.Check(); err != nil && now(t) < until {
				t.Errorf("what is known is forgotten: %v", err)
			}
			_, others := watch(t, path)
			for _, e := range []end{next(t, others), next(t, ends)} {
				if !strings.Contains(e.why.Error(), damage.says) {
					t.Errorf("%v", e.why)
				}
			}
			if err := w.Check(); !errors.Is(err, runtime.ErrFenced) || !strings.Contains(err.Error(), damage.says) {
				t.Errorf("after the deadline: %v", err)
			}
		})
	}
}

// Without a file there is no deadline, until there is one.
func TestWatchNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deadline")
	w, ends := watch(t, path)
	must(t, w.Check())
	must(t, newWriter(t, path).Move(1))
	if err := w.Check(); !errors.Is(err, runtime.ErrFenced) {
		t.Errorf("%v", err)
	}
	if e := next(t, ends); e.at != 1 {
		t.Errorf("%+v", e)
	}
	must(t, os.Remove(path))
	if err := w.Check(); !errors.Is(err, runtime.ErrFenced) {
		t.Errorf("the file was removed: %v", err)
	}
	var none *Watcher
	must(t, errors.Join(none.Check(), none.Passed()))
	none.Close()
}

func TestCloseEndsTheWatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deadline")
	must(t, newWriter(t, path).Move(now(t).Add(time.Hour)))
	w, ends := watch(t, path)
	w.Close()
	w.Close()
	must(t, newWriter(t, path).Expire())
	if err := w.Check(); !errors.Is(err, runtime.ErrFenced) {
		t.Errorf("%v", err)
	}
	if len(ends) > 0 {
		t.Errorf("told %+v", <-ends)
	}
}

// The stepper rings at its time, and soon after a suspension in which that has passed. It is at rest without one.
func TestStepper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var suspended atomic.Int64
		rang := make(chan time.Duration, 10)
		a := newStepper(func() (Instant, error) { return 1 + Instant(time.Since(begin)) + Instant(suspended.Load()), nil },
			func() { rang <- time.Since(begin) })
		defer a.close()
		a.set(1 + Instant(time.Minute))
		if at := <-rang; at != time.Minute {
			t.Errorf("rang at %v", at)
		}
		a.set(1 + Instant(time.Hour))
		a.set(1 + Instant(2*time.Minute)) // replaces it
		<-time.After(10*time.Second + maxStep/2)
		suspended.Store(int64(time.Hour))
		if at := <-rang; at < 70*time.Second+maxStep/2 || at > 70*time.Second+2*maxStep {
			t.Errorf("rang at %v", at)
		}
		a.set(1) // has passed
		<-rang
		a.set(1 + Instant(5*time.Hour))
		a.set(0)
		<-time.After(10 * time.Hour)
		if len(rang) > 0 {
			t.Errorf("rang at %v", <-rang)
		}
	})
}

// Wait ends at the time, or when it is done.
func TestWait(t *testing.T) {
	t.Parallel()
	until := now(t).Add(2*waitStep + 10*time.Millisecond)
	Wait(nil, until)
	if n := now(t); n < until {
		t.Errorf("%v too early", until.Until(n))
	}
	done := make(chan struct{})
	close(done)
	Wait(done, now(t).Add(time.Hour))
}
