package deadline

import (
	"sync"
	"time"
)

// alarm calls a function at a time on the clock of this package.
type alarm interface {
	// set replaces the time; 0 means never. The alarm rings once, at once if the time has passed.
	set(at Instant)
	// close ends it. It may be ringing.
	close()
}

// maxStep bounds the time until a stepper notices that the machine was suspended.
const maxStep = time.Second

// stepper is an alarm for systems without timers on the clock: those of Go stop while the machine is suspended. It
// reads the clock every maxStep.
type stepper struct {
	now  func() (Instant, error)
	ring func()

	mu    sync.Mutex
	at    Instant
	timer *time.Timer
}

func newStepper(now func() (Instant, error), ring func()) *stepper {
	a := &stepper{now: now, ring: ring}
	a.timer = time.AfterFunc(maxStep, a.step)
	a.timer.Stop()
	return a
}

func (a *stepper) set(at Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = at
	a.timer.Stop()
	if at != 0 {
		a.timer.Reset(a.left())
	}
}

// left returns the time to the next look at the clock. Needs mu.
func (a *stepper) left() time.Duration {
	now, err := a.now()
	if err != nil {
		return 0 // the caller finds out
	}
	return max(0, min(a.at.Until(now), maxStep))
}

func (a *stepper) step() {
	a.mu.Lock()
	if a.at == 0 {
		a.mu.Unlock()
		return
	}
	if left := a.left(); left > 0 {
		a.timer.Reset(left)
		a.mu.Unlock()
		return
	}
	a.at = 0
	a.mu.Unlock()
	a.ring()
}

func (a *stepper) close() { a.set(0) }
