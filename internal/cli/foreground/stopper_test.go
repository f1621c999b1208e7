package foreground

import (
	"testing"
	"testing/synctest"
	"time"
)

// stops counts the Stop(false) calls of a fleet.
type stops int

func (n *stops) Stop(keep bool) {
	if !keep {
		*n++
	}
}

func TestStopper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fleet stops
		s, ctx := NewStopper()
		s.Signal(15) // before the fleet is set
		if s.First() != 15 || ctx.Err() == nil {
			t.Errorf("first %v, asked %v", s.First(), ctx.Err())
		}
		s.Control(&fleet)
		time.Sleep(repeatTime)
		if s.Signal(2) || s.Kills() || fleet != 0 { // counts as the same signal
			t.Error("that killed")
		}
		time.Sleep(time.Nanosecond)
		if !s.Signal(2) || !s.Kills() || s.First() != 15 {
			t.Error("that did not kill")
		}
		if fleet != 2 { // two calls kill, whether or not the first has arrived yet
			t.Errorf("asked %d times, want twice", fleet)
		}

		// A second signal before the fleet is set.
		fleet = 0
		s, _ = NewStopper()
		s.Signal(15)
		time.Sleep(repeatTime + 1)
		if !s.Signal(15) || !s.Kills() || s.Signal(15) {
			t.Error("the second one did not kill, or the third one did")
		}
		<-s.Killed()
		if s.Control(&fleet); fleet != 2 {
			t.Errorf("a fleet that comes later was asked %d times, want twice", fleet)
		}

		s, ctx = NewStopper()
		s.Broken()
		if ctx.Err() == nil || s.First() != 0 {
			t.Error(ctx.Err(), s.First())
		}
	})
}
