package supervisor

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"
)

// The sleeps that the aide seed lists.
func TestDelay(t *testing.T) {
	sec := time.Second
	rows := []struct {
		b    Backoff
		want map[int]time.Duration
	}{
		{Backoff{}, map[int]time.Duration{0: 0, 1: 0, math.MaxInt: 0}},
		{Backoff{Kind: Fixed}, map[int]time.Duration{0: sec, 1: sec, 1000: sec, math.MaxInt: sec}},
		{Backoff{Kind: Linear}, map[int]time.Duration{0: sec, 1: 2 * sec, 4: 5 * sec, 298: 299 * sec, 299: 300 * sec, 300: 300 * sec, math.MaxInt32: 300 * sec, math.MaxInt: 300 * sec}},
		{Backoff{Kind: Exponential}, map[int]time.Duration{
			0: sec, 1: 2 * sec, 2: 4 * sec, 3: 8 * sec, 4: 16 * sec, 5: 32 * sec, 6: 64 * sec, 7: 128 * sec, 8: 256 * sec,
			9: 300 * sec, 10: 300 * sec, 62: 300 * sec, 63: 300 * sec, 64: 300 * sec, math.MaxInt32: 300 * sec, math.MaxInt: 300 * sec}},
		{Backoff{Kind: Exponential, Base: 3 * sec, Cap: 10 * sec}, map[int]time.Duration{0: 3 * sec, 1: 6 * sec, 2: 10 * sec}},
		{Backoff{Kind: Linear, Base: 4 * sec, Cap: 10 * sec}, map[int]time.Duration{0: 4 * sec, 1: 8 * sec, 2: 10 * sec}},
		{Backoff{Kind: Exponential, Cap: sec / 2}, map[int]time.Duration{0: sec / 2, 1: sec / 2}},
		{Backoff{Kind: Exponential, Base: 1, Cap: math.MaxInt64}, map[int]time.Duration{0: 1, 62: 1 << 62, 63: math.MaxInt64}},
	}
	for _, row := range rows {
		for n, want := range row.want {
			if got := row.b.Delay(n); got != want {
				t.Errorf("%+v: attempt %d: %v, want %v", row.b, n, got, want)
			}
		}
	}
}

// sleeps ends a child with each error in turn, and returns the delays of the
// restarts in seconds.
func (w *world) sleeps(id string, errs ...error) string {
	for _, err := range errs {
		w.exit(err, id)
		if i, _ := w.Child(id); i.State == Restarting {
			w.pass(time.Until(i.NextAt))
		}
	}
	var all []int
	for _, d := range w.actor(id).sleeps {
		all = append(all, int(d.Seconds()))
	}
	return fmt.Sprint(all)
}

func (w *world) delayed(kind BackoffKind) Spec {
	s := Spec{Limit: Limit{Max: Unlimited}, Children: w.kids("a")}
	s.Children[0].Backoff = Backoff{Kind: kind}
	return s
}

func TestBackoff(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"the delays of a chain of failures": func(t *testing.T, w *world) {
			w.up(w.delayed(Exponential))
			var errs []error
			for range 12 {
				errs = append(errs, errBoom)
			}
			if got := w.sleeps("a", errs...); got != "[1 2 4 8 16 32 64 128 256 300 300 300]" {
				t.Error(got)
			}
		},
		"a success resets it": func(t *testing.T, w *world) {
			w.up(w.delayed(Exponential))
			if got := w.sleeps("a", errBoom, errBoom, nil, errBoom, errBoom); got != "[1 2 1 1 2]" {
				t.Error(got)
			}
		},
		"so does a stable life": func(t *testing.T, w *world) {
			w.up(w.delayed(Linear))
			w.sleeps("a", errBoom, errBoom)
			w.pass(DefaultStableAfter)
			if got := w.sleeps("a", errBoom, errBoom); got != "[1 2 1 2]" {
				t.Error(got)
			}
		},
		"but not if it does not count": func(t *testing.T, w *world) {
			spec := w.delayed(Linear)
			spec.Children[0].Backoff.StableAfter = -1
			w.up(spec)
			w.sleeps("a", errBoom, errBoom)
			w.pass(1000 * time.Hour)
			if got := w.sleeps("a", errBoom, errBoom); got != "[1 2 3 4]" {
				t.Error(got)
			}
		},
		"a failing start goes on growing it": func(t *testing.T, w *world) {
			w.fails("a", errBoom, 2, 3, 4)
			spec := w.delayed(Exponential)
			spec.Children[0].WaitReady = true
			w.up(spec)
			w.crash("a")
			w.pass(time.Hour)
			if got := fmt.Sprint(w.actor("a").sleeps); got != "[1s 2s 4s 8s]" {
				t.Error(got)
			}
		},
		"it is visible": func(t *testing.T, w *world) {
			w.up(w.delayed(Fixed))
			now := time.Now()
			w.crash("a")
			i, err := w.Child("a")
			if err != nil || i.State != Restarting || !i.NextAt.Equal(now.Add(time.Second)) || i.Restarts != 1 || i.Reason != ReasonPermanent {
				t.Errorf("%+v, %v", i, err)
			}
			w.wantCounts(1, 0, 0, 1)
		},
		"terminate cancels it": func(t *testing.T, w *world) {
			w.up(w.delayed(Fixed))
			w.crash("a")
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			w.pass(time.Hour)
			w.wantList("a stopped")
			w.must(w.RestartChild(w.call(), "a"))
		},
		"stop cancels it": func(t *testing.T, w *world) {
			spec := w.delayed(Fixed)
			spec.Children[0].Backoff.Base = 300 * time.Second
			w.up(spec)
			w.crash("a")
			now := time.Now()
			w.Stop()
			<-w.Done()
			if d := time.Since(now); d != 0 {
				t.Errorf("the stop took %v", d)
			}
		},
		"reset ends it": func(t *testing.T, w *world) {
			w.up(w.delayed(Exponential))
			w.sleeps("a", errBoom, errBoom, errBoom)
			w.crash("a")
			w.fail("reset", w.Reset("a"), nil)
			w.wantList("a running")
			w.pass(8 * time.Second) // the delay it would have been
			w.wantList("a running")
			if n := w.actor("a").starts; n != 5 {
				t.Errorf("%d starts", n)
			}
			w.crash("a")
			if i, _ := w.Child("a"); time.Until(i.NextAt) != time.Second {
				t.Errorf("next try in %v", time.Until(i.NextAt))
			}
		},
		"a group waits for it": func(t *testing.T, w *world) {
			spec := w.delayed(Fixed)
			spec.Strategy = OneForAll
			spec.Children = append(spec.Children, w.kids("b")...)
			w.up(spec)
			w.crash("a")
			w.wantList("a restarting, b waiting")
			w.pass(time.Second - 1)
			w.want("+a +b +root !a -b")
			w.pass(1)
			w.want("+a +b")
		},
		"jitter draws from zero to the delay": func(t *testing.T, w *world) {
			w.up(Spec{Limit: Limit{Max: Unlimited}, Children: []ChildSpec{{ID: "a",
				Backoff: Backoff{Kind: Fixed, Base: time.Second, Jitter: true},
				Run:     func(context.Context) error { return errBoom }}}, OnEvent: w.saw})
			w.pass(500 * time.Second)
			n, sum := 0, time.Duration(0)
			for _, e := range w.seen() {
				if e, ok := e.(ChildExited); ok {
					if d := e.Decision.Delay; d < 0 || d > time.Second {
						t.Fatalf("delay %v", d)
					}
					n++
					sum += e.Decision.Delay
				}
			}
			if mean := sum / time.Duration(n); mean < 400*time.Millisecond || mean > 600*time.Millisecond {
				t.Errorf("mean %v of %d", mean, n)
			}
		},
	})
}
