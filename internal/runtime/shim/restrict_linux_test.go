package shim

import (
	"testing"
	"time"
)

// A shim of a version that would ignore no_new_privileges is replaced.
func TestOldShimIsReplaced(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "exit 0"))
	wait(t, "the end", s.Done())
	before := shimOf(s)
	forget := func() bool { // removes its capabilities after it has parked its link
		s.slot.mu.Lock()
		defer s.slot.mu.Unlock()
		if s.slot.idle != nil {
			s.slot.idle.restricts = false
		}
		return s.slot.idle != nil
	}
	for late := time.Now().Add(testTimeout); !forget() && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	next := start(t, r, sh("app/a", 2, "exit 0"))
	wait(t, "the end", next.Done())
	if shimOf(next) != before {
		t.Error("it was replaced although nothing has to be restricted")
	}
	for late := time.Now().Add(testTimeout); !forget() && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	l := sh("app/a", 3, "grep -q 'NoNewPrivs:.*1' /proc/self/status")
	l.NoNewPrivileges = true
	last := start(t, r, l)
	wait(t, "the end", last.Done())
	if shimOf(last) == before || !last.Exit().Clean() {
		t.Errorf("shim %v, as before; exit %v", shimOf(last), last.Exit())
	}
}
