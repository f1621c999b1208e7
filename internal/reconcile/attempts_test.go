package reconcile

import (
	"testing"
	"time"
)

// The delays grow. They begin again with another action, and after a pass that has found
// nothing to do at the path.
func TestAttempts(t *testing.T) {
	const interval = 10 * time.Second
	now, changed, as := now, false, make(attempts)
	idle := func(string) bool { return false }
	plan := func(kind Kind) (n int, next time.Duration) {
		res := Result{Actions: []Action{{Kind: kind, Path: "t/x"}}}
		as.filter(&res, now, interval, changed, idle)
		if len(res.Actions) > 0 {
			as.end("t/x", now)
		}
		if !res.Next.IsZero() {
			next = res.Next.Sub(now)
		}
		return len(res.Actions), next
	}
	if n, _ := plan(Start); n != 1 {
		t.Error("it is not done at all")
	}
	for range quickRetries - 1 {
		if n, next := plan(Start); n != 0 || next != firstRetry {
			t.Fatalf("it is done again at once: %d, or after %v", n, next)
		}
		now = now.Add(firstRetry)
		if n, _ := plan(Start); n != 1 {
			t.Fatal("it is not done again")
		}
	}
	for pause := firstRetry; pause < time.Minute; pause *= 2 {
		want := min(pause, interval)
		if n, next := plan(Start); n != 0 || next != want {
			t.Errorf("it is done again at once: %d, or after %v, want %v", n, next, want)
		}
		now = now.Add(want)
		if n, _ := plan(Start); n != 1 {
			t.Errorf("it is not done after %v", want)
		}
	}
	changed = true
	if n, _ := plan(Start); n != 1 {
		t.Error("it waits although something has happened")
	}
	changed = false
	if n, _ := plan(Stop); n != 1 {
		t.Error("another action waits, too")
	}
	as.filter(new(Result), now, interval, false, idle)
	if n, _ := plan(Stop); n != 1 || len(as) != 1 {
		t.Error("it waits although there was nothing to do meanwhile")
	}
}
