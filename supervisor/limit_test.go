package supervisor

import (
	"fmt"
	"testing"
	"time"
)

// The four rows of the limit, over the whole loop.
func TestLimitRows(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"escalate: the default is 5 in 60 s": func(t *testing.T, w *world) {
			w.up(Spec{Children: w.kids("a")})
			for range 5 {
				w.crash("a")
			}
			w.wantList("a running")
			w.crash("a")
			w.wantLimit("a")
		},
		"escalate: and one each 12 s is fine": func(t *testing.T, w *world) {
			w.up(Spec{Children: w.kids("a")})
			for range 100 {
				w.pass(12*time.Second + 1)
				w.crash("a")
			}
			w.wantList("a running")
		},
		"quarantine: five starts in an hour, and back by itself": func(t *testing.T, w *world) {
			w.up(Spec{Limit: Quarantining(5, time.Hour), Children: w.kids("a", "b")})
			first := time.Now()
			for range 5 {
				w.pass(time.Minute)
				w.crash("a")
			}
			w.wantList("a quarantined, b running")
			i, _ := w.Child("a")
			if !i.NextAt.Equal(first.Add(time.Hour+1)) || i.Reason != ReasonLimitQuarantine || i.InWindow != 5 || i.Uptime != 0 {
				t.Errorf("%+v", i)
			}
			w.pass(time.Until(i.NextAt) - 1)
			w.wantList("a quarantined, b running")
			w.pass(1)
			w.wantList("a running, b running")
			w.crash("a") // room for one only
			w.wantList("a quarantined, b running")
		},
		"incarnations that live shortly are counted": func(t *testing.T, w *world) {
			w.up(Spec{Limit: Limit{Max: Unlimited}, Children: w.kids("a")})
			want := func(when string, n int) {
				t.Helper()
				if i, _ := w.Child("a"); i.ShortLived != n {
					t.Errorf("%s: %d, want %d", when, i.ShortLived, n)
				}
			}
			want("at first", 0)
			w.crash("a")
			w.exit(nil, "a")
			want("after a crash and a clean end", 2)
			w.pass(DefaultStableAfter - 1)
			want("while it lives", 2)
			w.pass(1)
			want("when it has lived for long", 0)
			w.crash("a")
			want("after the end of a long life", 0)
			w.crash("a", "a")
			want("after two more", 2)
			w.fail("reset", w.Reset("a"), nil)
			want("after a reset", 0)
			w.crash("a")
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			w.fail("restart", only(w.RestartChild(w.call(), "a")), nil)
			want("after a start by hand", 0)
		},
		"quarantine: reset ends it": func(t *testing.T, w *world) {
			w.up(Spec{Limit: Quarantining(2, time.Hour), Children: w.kids("a")})
			w.crash("a", "a")
			w.wantList("a quarantined")
			w.fail("restart", only(w.RestartChild(w.call(), "a")), ErrRestarting)
			w.fail("delete", w.DeleteChild("a"), ErrRestarting)
			w.fail("reset", w.Reset("a"), nil)
			w.wantList("a running")
			w.crash("a")
			w.wantList("a running") // the counter was reset
		},
		"quarantine: a restart after it is not taken back by the old timer": func(t *testing.T, w *world) {
			w.up(Spec{Limit: Quarantining(1, time.Hour), Children: w.kids("a")})
			w.pass(10 * time.Minute)
			w.crash("a")
			w.fail("reset", w.Reset("a"), nil)
			w.pass(30 * time.Minute)
			w.crash("a")
			w.pass(21 * time.Minute) // the first quarantine would be over
			w.wantList("a quarantined")
			w.pass(10 * time.Minute)
			w.wantList("a running")
		},
		"give up: until reset": func(t *testing.T, w *world) {
			w.up(Spec{Limit: GivingUp(3), Children: w.kids("a", "b")})
			w.crash("a", "a", "a", "a")
			w.pass(1000 * time.Hour)
			w.wantList("a given_up, b running")
			if n := w.actor("a").starts; n != 4 {
				t.Errorf("%d runs, want 1 + 3", n)
			}
			i, _ := w.Child("a")
			if i.Restarts != 3 || !i.NextAt.IsZero() || i.LastExit.Err != errBoom {
				t.Errorf("%+v", i)
			}
			w.fail("reset", w.Reset("a"), nil)
			w.wantList("a running, b running")
		},
		"give up: each child has its own count": func(t *testing.T, w *world) {
			w.up(Spec{Limit: GivingUp(1), Children: w.kids("a", "b")})
			w.crash("a", "b")
			w.wantList("a running, b running")
			w.crash("a")
			w.wantList("a given_up, b running")
		},
		"give up: a success between": func(t *testing.T, w *world) {
			w.up(Spec{Limit: GivingUp(2), Children: w.kids("a")})
			w.crash("a", "a")
			w.exit(nil, "a")
			w.crash("a", "a")
			w.wantList("a running")
			w.crash("a")
			w.wantList("a given_up")
		},
		"pause, resume, and the probe succeeds": func(t *testing.T, w *world) {
			spec := pool(w.byID("transient"))
			spec.Limit = Pausing(3, 5*time.Minute)
			w.up(spec)
			for _, id := range []string{"a", "b", "c", "d"} {
				w.must(w.StartInstance(w.call(), id, nil))
			}
			w.crash("a", "b", "c")
			w.wantList("a running, b running, c paused, d running")
			w.crash("a", "b")
			w.wantList("a paused, b paused, c paused, d running")
			w.fail("start", only(w.StartInstance(w.call(), "e", nil)), ErrPaused)
			w.pass(1000 * time.Hour)
			w.wantList("a paused, b paused, c paused, d running")
			w.fail("resume", w.Resume(), nil)
			w.wantList("a running, b paused, c paused, d running")
			w.fail("beside the probe", only(w.StartInstance(w.call(), "e", nil)), ErrPaused)
			w.exit(nil, "a")
			w.wantList("b running, c running, d running")
			w.must(w.StartInstance(w.call(), "e", nil))
		},
		"pause, resume, and the probe fails": func(t *testing.T, w *world) {
			w.up(Spec{Limit: Pausing(1, time.Minute), Children: w.kids("a", "b")})
			w.crash("a", "b")
			for range 3 {
				w.fail("resume", w.Resume(), nil)
				w.wantList("a running, b paused")
				w.crash("a")
				w.wantList("a paused, b paused")
			}
			w.fail("resume", w.Resume(), nil)
			w.pass(DefaultStableAfter)
			w.wantList("a running, b running")
		},
		"a child's own limit and the supervisor's": func(t *testing.T, w *world) {
			spec := Spec{Limit: Escalating(1, time.Hour), Children: w.kids("a", "b")}
			spec.Children[0].Limit = GivingUp(2)
			w.up(spec)
			w.crash("a", "a", "a", "b")
			w.wantList("a given_up, b running")
			w.crash("b")
			w.wantLimit("b")
		},
		"a child's own limit may escalate": func(t *testing.T, w *world) {
			spec := Spec{Limit: Limit{Max: Unlimited}, Children: w.kids("a", "b")}
			spec.Children[0].Limit = Escalating(1, time.Hour)
			w.up(spec)
			for range 20 {
				w.crash("b")
			}
			w.crash("a", "a")
			w.wantLimit("a")
		},
		"events of a limit": func(t *testing.T, w *world) {
			w.up(Spec{Limit: Quarantining(1, time.Hour), Children: w.kids("a")})
			at := time.Now()
			w.crash("a")
			w.pass(time.Hour + 1)
			var got []string
			for _, e := range w.seen() {
				switch e := e.(type) {
				case LimitReached:
					got = append(got, fmt.Sprint("reached by ", e.ID, " until ", e.Until.Sub(at), ": ", e.Exit))
				case LimitLifted:
					got = append(got, fmt.Sprint("lifted for ", e.ID, ": ", e.Reason == ReasonLimitQuarantine))
				}
			}
			if s := fmt.Sprint(got); s != "[reached by a until 1h0m0.000000001s: boom lifted for a: true]" {
				t.Error(s)
			}
		},
	})
}
