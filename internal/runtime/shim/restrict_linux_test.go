package shim

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/landlock/landlocktest"
)

// A shim of a version that would ignore a restriction is replaced.
func TestOldShimIsReplaced(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "exit 0"))
	wait(t, "the end", s.Done())
	before := shimOf(s)
	parked := func() bool {
		s.slot.mu.Lock()
		defer s.slot.mu.Unlock()
		if s.slot.idle != nil {
			s.slot.idle.conn.hello.State.Restricts, s.slot.idle.conn.hello.State.Confines = false, false
		}
		return s.slot.idle != nil
	}
	forget := func() { // removes its capabilities after it has parked its link
		for late := time.Now().Add(testTimeout); !parked() && time.Now().Before(late); {
			time.Sleep(time.Millisecond)
		}
	}
	forget()
	next := start(t, r, sh("app/a", 2, "exit 0"))
	wait(t, "the end", next.Done())
	if shimOf(next) != before {
		t.Error("it was replaced although nothing has to be restricted")
	}
	forget()
	l := sh("app/a", 3, "grep -q 'NoNewPrivs:.*1' /proc/self/status")
	l.NoNewPrivileges = true
	last := start(t, r, l)
	wait(t, "the end", last.Done())
	if shimOf(last) == before || !last.Exit().Clean() {
		t.Errorf("shim %v, as before; exit %v", shimOf(last), last.Exit())
	}
	before = shimOf(last)
	forget()
	landlocktest.Need(t)
	l = sh("app/a", 4, "! echo x > new")
	l.Dir, l.Paths = t.TempDir(), landlock.New([]string{}, nil)
	limited := start(t, r, l)
	wait(t, "the end", limited.Done())
	if shimOf(limited) == before || !limited.Exit().Clean() {
		t.Errorf("limited: shim %v, as before; exit %v", shimOf(limited), limited.Exit())
	}
}
