package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// states are the children of a supervisor in short: "a" runs, "a?" may be
// started, "a." waits, "a-" is down, "a!" is being restarted or held.
func states(t testing.TB, s *Supervisor) string {
	t.Helper()
	children, err := s.Children()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range children {
		mark := map[State]string{Running: "", Waiting: ".", Stopped: "-", Suspended: "-"}
		m, known := mark[c.State]
		switch {
		case c.State == Waiting && c.Reason == ReasonDeferred:
			m = "?"
		case !known:
			m = "!"
		}
		all = append(all, c.ID+m)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Children that EnsureChild starts are left to it again when their group is restarted,
// except for the one that has failed.
func TestManualStart(t *testing.T) {
	type does struct {
		name string
		do   func(s *Supervisor) error
		want string
	}
	ensure := func(id string) func(*Supervisor) error {
		return func(s *Supervisor) error { _, err := s.EnsureChild(context.Background(), id); return err }
	}
	suspend := func(id string) func(*Supervisor) error {
		return func(s *Supervisor) error { return s.SuspendChild(context.Background(), id) }
	}
	spec := func(strategy Strategy, crash func(id string) error) Spec {
		child := func(id string, manual bool) ChildSpec {
			return ChildSpec{ID: id, ManualStart: manual, Run: func(ctx context.Context) error {
				for ctx.Err() == nil {
					if err := crash(id); err != nil {
						return err
					}
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
					}
				}
				return nil
			}}
		}
		return Spec{Strategy: strategy, Limit: Escalating(Unlimited, 0), Children: []ChildSpec{child("a", false), child("b", true), child("c", false), child("d", true), child("e", true)}}
	}
	var failing atomic.Value
	failing.Store("")
	crash := func(id string) error {
		if !failing.CompareAndSwap(id, "") {
			return nil
		}
		return errors.New("boom")
	}
	crashes := func(id string) func(*Supervisor) error {
		return func(*Supervisor) error { failing.Store(id); time.Sleep(2 * time.Second); return nil }
	}
	for _, tt := range []struct {
		name     string
		strategy Strategy
		steps    []does
	}{
		{"in any order", RestForOne, []does{
			{"at first", nil, "a b? c d? e?"}, {"d", ensure("d"), "a b? c d e?"}, {"b", ensure("b"), "a b c d e?"},
		}},
		{"a failure before", RestForOne, []does{
			{"b", ensure("b"), "a b c d? e?"}, {"a fails", crashes("a"), "a b? c d? e?"}, {"b again", ensure("b"), "a b c d? e?"},
		}},
		{"its own failure", RestForOne, []does{
			{"b", ensure("b"), "a b c d? e?"}, {"d", ensure("d"), "a b c d e?"}, {"b fails", crashes("b"), "a b c d? e?"},
		}},
		{"one for all", OneForAll, []does{
			{"b", ensure("b"), "a b c d? e?"}, {"c fails", crashes("c"), "a b? c d? e?"}, {"b again", ensure("b"), "a b c d? e?"},
			{"b fails", crashes("b"), "a b c d? e?"},
		}},
		{"one for all, after another one", OneForAll, []does{
			{"b", ensure("b"), "a b c d? e?"}, {"d", ensure("d"), "a b c d e?"}, {"d fails", crashes("d"), "a b? c d? e?"},
		}},
		{"not to run", RestForOne, []does{
			{"later", suspend("d"), "a b? c d- e?"}, {"a fails", crashes("a"), "a b? c d- e?"},
		}},
		{"deleted", OneForAll, []does{
			{"b", func(s *Supervisor) error { return s.DeleteChild("b") }, "a c d? e?"},
		}},
		{"one for one", OneForOne, []does{
			{"d", ensure("d"), "a b? c d e?"}, {"d fails", crashes("d"), "a b? c d e?"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Start(t.Context(), spec(tt.strategy, crash))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { s.Stop(); s.Wait() }()
				for _, step := range tt.steps {
					if step.do != nil {
						if err := step.do(s); err != nil {
							t.Errorf("%s: %v", step.name, err)
						}
					}
					synctest.Wait()
					if got := states(t, s); got != step.want {
						t.Fatalf("%s: %s, want %s", step.name, got, step.want)
					}
				}
			})
		})
	}
}

// The restart of a group ends the wait for the start of a member: it is to be started again.
func TestManualStartOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan error)
		s, err := Start(t.Context(), Spec{Strategy: RestForOne, Children: []ChildSpec{
			{ID: "a", Run: func(ctx context.Context) error {
				select {
				case err := <-fail:
					return err
				case <-ctx.Done():
					return nil
				}
			}},
			{ID: "b", ManualStart: true, WaitReady: true, Run: func(ctx context.Context) error { <-ctx.Done(); return nil }},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		ensured := make(chan error)
		go func() { _, err := s.EnsureChild(t.Context(), "b"); ensured <- err }()
		synctest.Wait()
		fail <- errors.New("boom")
		if err := <-ensured; !errors.Is(err, ErrRestarting) {
			t.Errorf("got %v, want ErrRestarting", err)
		}
		if got := states(t, s); got != "a b?" {
			t.Errorf("they are %s", got)
		}
	})
}

// Whatever happens to a group, ensuring what has yet to be started gets all of it running.
func TestManualStartProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failed any
		synctest.Test(t, func(*testing.T) {
			defer func() { failed = recover() }()
			n := rapid.IntRange(1, 6).Draw(rt, "children")
			strategy := rapid.SampledFrom([]Strategy{OneForAll, RestForOne}).Draw(rt, "strategy")
			kill := make(map[string]context.CancelCauseFunc)
			broken := make(map[string]bool) // fails to start
			var mu sync.Mutex
			fails := func(id string) bool {
				mu.Lock()
				defer mu.Unlock()
				return broken[id]
			}
			draw := func() Spec {
				spec := Spec{Strategy: strategy, StartFailure: Retry, Limit: Escalating(Unlimited, 0)}
				for i := range n {
					id := fmt.Sprint(i)
					spec.Children = append(spec.Children, ChildSpec{
						ID: id, ManualStart: rapid.Bool().Draw(rt, "manual"), WaitReady: true, Backoff: Backoff{Kind: Fixed, Base: time.Second},
						Run: func(ctx context.Context) error {
							life, end := context.WithCancelCause(ctx)
							defer end(nil)
							time.Sleep(time.Millisecond)
							if fails(id) {
								return errors.New("broken")
							}
							mu.Lock()
							kill[id] = end
							mu.Unlock()
							Ready(ctx)
							<-life.Done()
							if ctx.Err() != nil {
								return nil
							}
							return context.Cause(life)
						},
					})
				}
				return spec
			}
			s, err := Start(context.Background(), draw())
			if err != nil {
				rt.Fatal(err)
			}
			defer func() { s.Stop(); s.Wait() }()
			look := func() (deferred string, all []ChildInfo) {
				synctest.Wait()
				all, err := s.Children()
				if err != nil {
					rt.Fatal(err)
				}
				for _, c := range all {
					if deferred == "" && c.State == Waiting && c.Reason == ReasonDeferred {
						deferred = c.ID
					}
				}
				return deferred, all
			}
			ctx := func() context.Context { // what is broken is tried again for ever
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				time.AfterFunc(time.Hour, cancel)
				return ctx
			}
			some := func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, n-1).Draw(t, "child")) }
			rt.Repeat(map[string]func(*rapid.T){
				"": func(*rapid.T) { look() },
				"ensure": func(t *rapid.T) {
					if deferred, _ := look(); deferred != "" {
						s.EnsureChild(ctx(), deferred)
					}
				},
				"ensure another": func(t *rapid.T) { s.EnsureChild(ctx(), some(t)) },
				"crash": func(t *rapid.T) {
					id := some(t)
					mu.Lock()
					defer mu.Unlock()
					if end := kill[id]; end != nil {
						end(errors.New("boom"))
					}
				},
				"break": func(t *rapid.T) {
					id := some(t)
					mu.Lock()
					defer mu.Unlock()
					broken[id] = !broken[id]
				},
				"wait":    func(t *rapid.T) { time.Sleep(10 * time.Second) },
				"suspend": func(t *rapid.T) { s.SuspendChild(ctx(), some(t)) },
				"renew":   func(t *rapid.T) { s.ReplaceChild(ctx(), some(t)) },
				"counted": func(t *rapid.T) { // what is down it starts, as RestartChild does
					id := some(t)
					if i, err := s.Child(id); err == nil && i.State != Suspended && i.State != Stopped {
						s.RestartCounted(ctx(), id, errBoom)
					}
				},
				"update": func(t *rapid.T) {
					spec := draw()
					go s.Update(context.Background(), spec)
				},
			})
			mu.Lock()
			clear(broken)
			mu.Unlock()
			for range 3 * n {
				time.Sleep(10 * time.Second)
				if deferred, _ := look(); deferred != "" {
					if _, err := s.EnsureChild(ctx(), deferred); err != nil {
						rt.Fatalf("%s has yet to be started: %v", deferred, err)
					}
				}
			}
			time.Sleep(10 * time.Second)
			if _, all := look(); slices.ContainsFunc(all, func(c ChildInfo) bool {
				return c.State != Running && c.State != Suspended && c.State != Stopped
			}) {
				rt.Fatalf("in the end they are %s", states(t, s))
			}
		})
		switch fmt.Sprintf("%T", failed) { // rapid tells faults from what it has drawn by where they come from
		case "<nil>":
		case "rapid.stopTest":
			panic(failed)
		default:
			panic(failed)
		}
	})
}
