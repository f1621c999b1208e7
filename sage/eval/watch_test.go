package eval

import (
	"context"
	"testing"
	"testing/synctest"
)

// A stop that is noticed late does not stop what runs after it, such as on resting.
func TestLateStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t.Context(), new(Instance), nil)
		for range 1000 {
			life, end := context.WithCancel(t.Context())
			m.watch(life)
			end()
			m.unwatch()
			m.watch(t.Context())
			synctest.Wait()
			if m.stop.Load() {
				t.Fatal("the machine stops")
			}
			m.unwatch()
		}
	})
}
