package deadline

import (
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// Watcher watches the deadline in a file. It sleeps until the deadline that it knows, and reads the file then. A nil
// Watcher knows no deadline.
type Watcher struct {
	path string
	over func(at Instant, why error)

	mu     sync.Mutex
	state  state
	alarm  alarm
	closed bool
}

// Watch watches a file, and calls over, in a goroutine of its own, once for each deadline that has come and was not
// moved. at is the deadline, or now if it cannot be told or has not come yet. why wraps runtime.ErrDeadline.
//
// After that, and while there is no deadline, the Watcher rests until Check is called: nothing may be started without
// that.
func Watch(path string, over func(at Instant, why error)) *Watcher {
	w := &Watcher{path: path, over: over}
	w.alarm = newAlarm(func() { w.Check() })
	w.Check()
	return w
}

// Path returns the name of the file.
func (w *Watcher) Path() string {
	if w == nil {
		return ""
	}
	return w.path
}

// Check reads the file. The error wraps runtime.ErrFenced if nothing may be started.
func (w *Watcher) Check() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.read(load(w.path))
	return w.check()
}

// Passed is Check without reading the file: what was checked before may have come meanwhile.
func (w *Watcher) Passed() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.check()
}

// check acts on what is known. Needs mu.
func (w *Watcher) check() error {
	now, err := Now()
	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrFenced, err)
	}
	at, why := w.state.next(now)
	if w.closed {
		return w.state.check(now)
	}
	w.alarm.set(at)
	if why != nil {
		go w.over(w.state.end(now), why)
	}
	return w.state.check(now)
}

// Close ends the watch. A call of over may still run.
func (w *Watcher) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.alarm.close()
	}
}

// Wait waits until done is closed, or for a time. It reads the clock often enough to notice that the machine was
// suspended, so it is for short times: those in which agents end.
func Wait(done <-chan struct{}, until Instant) {
	for {
		now, err := Now()
		left := until.Until(now)
		if err != nil || left <= 0 {
			return
		}
		select {
		case <-done:
			return
		case <-time.After(min(left, waitStep)):
		}
	}
}

const waitStep = 250 * time.Millisecond
