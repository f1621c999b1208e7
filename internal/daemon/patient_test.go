package daemon

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/patrol"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// What is planned again and again, and cannot be done, does not keep the rounds
// going all the time: here the group of what is to start waits for its restart.
func TestRoundsAtWhatCannotBeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := func(suspended bool) *spec.Tree {
			tree := edited(t, treeOf(t, "g:one_for_all(a b)"), "b", func(a *spec.Agent) { a.Suspended = suspended })
			return edited(t, tree, "a", func(a *spec.Agent) {
				a.Backoff = supervisor.Backoff{Kind: supervisor.Fixed, Base: 10 * time.Minute, Cap: 10 * time.Minute}
			})
		}
		p := newPlay(t, tree(true))
		defer p.close()
		p.stage.on("t/g/a").end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")})
		time.Sleep(time.Second)
		p.becomes(tree(false))
		begun, times := time.Now(), 0
		for r := p.patrols; time.Since(begun) < 9*time.Minute; time.Sleep(100 * time.Millisecond) {
			r.mu.Lock()
			times = max(times, r.tries["t/g/b"].times)
			r.mu.Unlock()
		}
		if times == 0 || times > 40 {
			t.Errorf("in 9 minutes it was tried %d times to start it", times)
		}
		time.Sleep(2 * time.Minute)
		if got := p.stage.cast(); got != "t/g/a 2, t/g/b 1" {
			t.Errorf("when the group is restarted there live %s", got)
		}
		p.patrols.mu.Lock()
		defer p.patrols.mu.Unlock()
		if len(p.patrols.tries) > 0 {
			t.Errorf("of a fleet at rest it is remembered: %+v", p.patrols.tries)
		}
	})
}

// The pauses grow, and begin anew with something else, or when a round has
// found nothing to do about it.
func TestPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "a"))
		defer p.close()
		r := newRounds(p.Controller)
		plan := func(kind patrol.Kind) (n int, next time.Duration) {
			res := patrol.Result{Actions: []patrol.Action{{Kind: kind, Path: "t/x"}}}
			r.patient(&res)
			if len(res.Actions) > 0 {
				r.over("t/x")
			}
			if !res.Next.IsZero() {
				next = time.Until(res.Next)
			}
			return len(res.Actions), next
		}
		if n, _ := plan(patrol.Start); n != 1 {
			t.Error("it is not done at all")
		}
		for pause := firstRetry; pause < time.Minute; pause *= 2 {
			want := min(pause, p.fleet().patrol.Interval)
			if n, next := plan(patrol.Start); n != 0 || next != want {
				t.Errorf("it is done again at once: %d, or after %v, want %v", n, next, want)
			}
			time.Sleep(want)
			if n, _ := plan(patrol.Start); n != 1 {
				t.Errorf("it is not done after %v", want)
			}
		}
		if n, _ := plan(patrol.Stop); n != 1 {
			t.Error("something else waits, too")
		}
		r.patient(new(patrol.Result))
		if n, _ := plan(patrol.Stop); n != 1 || len(r.tries) != 1 {
			t.Error("it waits although there was nothing to do meanwhile")
		}
	})
}
