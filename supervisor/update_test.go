package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// While a group restarts, changes wait. They happen in the order of the calls, also for callers
// that no longer wait, and reach supervisors that were started with what was in force before.
func TestUpdateInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan error)
		idle := func(ctx context.Context) error { <-ctx.Done(); return nil }
		spec := func(children ...string) Spec {
			nested := &Spec{}
			for _, id := range children {
				nested.Children = append(nested.Children, ChildSpec{ID: id, Run: idle})
			}
			return Spec{Strategy: RestForOne, Children: []ChildSpec{
				{ID: "a", Backoff: Backoff{Kind: Fixed, Base: time.Minute}, Run: func(ctx context.Context) error {
					select {
					case err := <-fail:
						return err
					case <-ctx.Done():
						return nil
					}
				}},
				{ID: "nested", Supervisor: nested},
			}}
		}
		s, err := Start(t.Context(), spec("x"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		below := func() string {
			t.Helper()
			info, err := s.Child("nested")
			if err != nil {
				t.Fatal(err)
			}
			return states(t, info.Sub)
		}
		if err := s.Update(t.Context(), spec("x", "y")); err != nil {
			t.Fatal(err)
		}
		if got := below(); got != "x y-" {
			t.Errorf("after an update there are %s", got)
		}
		fail <- errors.New("boom")
		synctest.Wait() // in the delay before the restart
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Update(ctx, spec("x", "y", "late")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an update while the group restarts: %v", err)
		}
		done := make(chan error)
		go func() { done <- s.Update(t.Context(), spec("x", "z")) }()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := below(); got != "late- x y z-" {
			t.Errorf("after the restart there are %s", got)
		}
		info, _ := s.Child("nested")
		children, err := info.Sub.Children()
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, c := range children {
			order = append(order, c.ID)
		}
		if got := strings.Join(order, " "); got != "y late x z" {
			t.Errorf("the last update has made the order %s", got)
		}
	})
}

// Temporary children that have ended stay unlisted, until they are missing once.
func TestUpdateLeavesWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := func(ctx context.Context) error { <-ctx.Done(); return nil }
		once := ChildSpec{ID: "once", Restart: Temporary, Run: func(context.Context) error { return nil }}
		a, b := ChildSpec{ID: "a", Run: idle}, ChildSpec{ID: "b", Run: idle}
		s, err := Start(t.Context(), Spec{Children: []ChildSpec{a, once}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		synctest.Wait()
		for _, step := range []struct {
			children []ChildSpec
			want     string
		}{
			{[]ChildSpec{a, once, b}, "a b-"}, {[]ChildSpec{once, b, a}, "a b-"}, {[]ChildSpec{a, b}, "a b-"},
			{[]ChildSpec{a, b, once}, "a b- once-"},
		} {
			if err := s.Update(t.Context(), Spec{Children: step.children}); err != nil {
				t.Fatal(err)
			}
			if got := states(t, s); got != step.want {
				t.Errorf("there are %s, want %s", got, step.want)
			}
		}
	})
}

// A change of a supervisor that ends before it could take it is refused.
func TestUpdateOfWhatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := ChildSpec{ID: "slow", WaitReady: true, Run: func(ctx context.Context) error { <-ctx.Done(); return nil }}
		s, err := Launch(t.Context(), Spec{Children: []ChildSpec{slow}})
		if err != nil {
			t.Fatal(err)
		}
		updated := make(chan error)
		go func() { updated <- s.Update(t.Context(), Spec{Children: []ChildSpec{slow}}) }()
		synctest.Wait()
		s.Stop()
		if err := <-updated; !slices.ContainsFunc([]error{ErrStopping, ErrNoSupervisor},
			func(e error) bool { return errors.Is(err, e) }) {
			t.Errorf("got %v", err)
		}
		s.Wait()
	})
}
