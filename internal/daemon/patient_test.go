package daemon

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/reconcile"
)

// The pauses grow, and begin anew with something else, or when a round has
// found nothing to do about it.
func TestPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "a"))
		defer p.close()
		r := newRounds(p.Controller)
		news := false
		plan := func(kind reconcile.Kind) (n int, next time.Duration) {
			res := reconcile.Result{Actions: []reconcile.Action{{Kind: kind, Path: "t/x"}}}
			r.patient(&res, news)
			if len(res.Actions) > 0 {
				r.over("t/x", r.busy)
			}
			if !res.Next.IsZero() {
				next = time.Until(res.Next)
			}
			return len(res.Actions), next
		}
		if n, _ := plan(reconcile.Start); n != 1 {
			t.Error("it is not done at all")
		}
		for range someTries - 1 {
			if n, next := plan(reconcile.Start); n != 0 || next != firstRetry {
				t.Fatalf("it is done again at once: %d, or after %v", n, next)
			}
			time.Sleep(firstRetry)
			if n, _ := plan(reconcile.Start); n != 1 {
				t.Fatal("it is not done again")
			}
		}
		for pause := firstRetry; pause < time.Minute; pause *= 2 {
			want := min(pause, p.fleet().Patrol.Interval)
			if n, next := plan(reconcile.Start); n != 0 || next != want {
				t.Errorf("it is done again at once: %d, or after %v, want %v", n, next, want)
			}
			time.Sleep(want)
			if n, _ := plan(reconcile.Start); n != 1 {
				t.Errorf("it is not done after %v", want)
			}
		}
		news = true
		if n, _ := plan(reconcile.Start); n != 1 {
			t.Error("it waits although something has happened")
		}
		news = false
		if n, _ := plan(reconcile.Stop); n != 1 {
			t.Error("something else waits, too")
		}
		r.patient(new(reconcile.Result), false)
		if n, _ := plan(reconcile.Stop); n != 1 || len(r.tries) != 1 {
			t.Error("it waits although there was nothing to do meanwhile")
		}
	})
}
