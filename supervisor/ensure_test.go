package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// numbered is a child that sends the number of each of its incarnations.
func numbered(id string, numbers chan<- uint64) ChildSpec {
	return ChildSpec{ID: id, Run: func(ctx context.Context) error {
		self, _ := SelfOf(ctx)
		numbers <- self.Incarnation
		<-ctx.Done()
		return nil
	}}
}

// The children of a nested supervisor that is restarted go on with their
// numbers, and those that were suspended stay down.
func TestNumbersOutliveSupervisors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, gone := make(chan uint64, 9), make(chan uint64, 9), make(chan uint64, 9)
		fail := make(chan error)
		crash := ChildSpec{ID: "crash", Run: func(ctx context.Context) error {
			select {
			case err := <-fail:
				return err
			case <-ctx.Done():
				return nil
			}
		}}
		late := numbered("a", a)
		late.Saved = &Saved{State: Running, Incarnation: 6}
		temporary := ChildSpec{ID: "once", Restart: Temporary, Run: func(ctx context.Context) error {
			self, _ := SelfOf(ctx)
			gone <- self.Incarnation
			return nil
		}}
		inner := &Spec{Limit: Escalating(0, time.Hour), Children: []ChildSpec{late, numbered("b", b), crash, temporary}}
		s, err := Start(t.Context(), Spec{Limit: Escalating(9, time.Hour), Children: []ChildSpec{
			{ID: "outer", Supervisor: &Spec{Limit: Escalating(1, time.Hour), Children: []ChildSpec{{ID: "inner", Supervisor: inner}}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		sub := func() *Supervisor {
			synctest.Wait()
			outer, err := s.Child("outer")
			if err != nil {
				t.Fatal(err)
			}
			inner, err := outer.Sub.Child("inner")
			if err != nil {
				t.Fatal(err)
			}
			return inner.Sub
		}
		if err := sub().SuspendChild(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		for range 3 { // the second one restarts outer, too
			fail <- errors.New("boom")
			synctest.Wait()
		}
		if _, err := sub().RestartChild(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for n := range uint64(4) {
			if got := <-a; got != 7+n {
				t.Errorf("incarnation %d of a, want %d", got, 7+n)
			}
			if got := <-gone; got != 1+n {
				t.Errorf("incarnation %d of what is temporary, want %d", got, 1+n)
			}
		}
		if first, second := <-b, <-b; first != 1 || second != 2 || len(b) != 0 {
			t.Errorf("incarnations %d and %d of b, and %d more, want 1, 2 and none", first, second, len(b))
		}
	})
}

// ManualStart children wait until somebody ensures them, all at the same time; a
// start that fails is tried again.
func TestEnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context) error {
			time.Sleep(time.Second)
			Ready(ctx)
			<-ctx.Done()
			return nil
		}
		begun := time.Now()
		s, err := Start(t.Context(), Spec{Limit: Escalating(5, time.Hour), AutoShutdown: WhenDone, Children: []ChildSpec{
			{ID: "a", Run: slow, WaitReady: true, ManualStart: true},
			{ID: "b", Run: slow, WaitReady: true, ManualStart: true},
			{ID: "c", Run: func(ctx context.Context) error {
				if time.Since(begun) < time.Minute {
					return errors.New("boom")
				}
				return slow(ctx)
			}, WaitReady: true, ManualStart: true, Backoff: Backoff{Kind: Fixed, Base: 2 * time.Minute, Cap: time.Hour}},
			{ID: "d", Run: idle, ManualStart: true, Saved: &Saved{State: Suspended}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		time.Sleep(time.Hour)
		begun = time.Now()
		for _, id := range []string{"a", "b", "c"} {
			if i, err := s.Child(id); err != nil || i.State != Waiting || i.Reason != ReasonDeferred {
				t.Fatalf("%s is %+v, %v, want it to wait", id, i, err)
			}
		}
		results := make(chan error, 3)
		for _, id := range []string{"a", "b", "c"} {
			go func() {
				_, err := s.EnsureChild(t.Context(), id)
				results <- err
			}()
		}
		var start *StartError
		if err := <-results; !errors.As(err, &start) || start.ID != "c" {
			t.Errorf("got %v, want that c could not be started", err)
		}
		if err := errors.Join(<-results, <-results); err != nil {
			t.Error(err)
		}
		if d := time.Since(begun); d != time.Second {
			t.Errorf("two children that take 1s each took %v, want them to start together", d)
		}
		for id, want := range map[string]error{"a": ErrRunning, "c": ErrRestarting, "d": ErrTerminated, "e": ErrNotFound} {
			if _, err := s.EnsureChild(t.Context(), id); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", id, err, want)
			}
		}
		time.Sleep(3 * time.Minute)
		if i, err := s.Child("c"); err != nil || i.State != Running || i.Incarnation != 2 || i.InWindow != 1 {
			t.Errorf("c is %+v, %v, want it to have been started again, and that counted", i, err)
		}
	})
}

// What an Update adds may wait, and goes on from what is known of it.
func TestUpdateDefers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ChildSpec{ID: "a", Run: idle}
		s, err := Start(t.Context(), Spec{Children: []ChildSpec{a}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		if err := s.Update(context.Background(), Spec{Children: []ChildSpec{
			{ID: "b", Run: idle, ManualStart: true, Saved: &Saved{State: Waiting, Incarnation: 4}},
			a,
			{ID: "c", Run: idle, ManualStart: true, Saved: &Saved{State: Suspended, Incarnation: 2, Reason: ReasonTerminated}},
			{ID: "d", Run: idle},
		}}); err != nil {
			t.Fatal(err)
		}
		if i, err := s.EnsureChild(t.Context(), "b"); err != nil || i.Incarnation != 5 {
			t.Errorf("b is %+v, %v, want its fifth incarnation", i, err)
		}
		for id, want := range map[string]State{"a": Running, "b": Running, "c": Suspended, "d": Stopped} {
			if i, err := s.Child(id); err != nil || i.State != want {
				t.Errorf("%s is %+v, %v, want %v", id, i, err, want)
			}
		}
	})
}

// A child that is renewed has not failed: no limit counts or holds it. One whose
// renewals are counted goes on as it is where a limit that counts starts has no room.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := make(chan uint64, 99)
		free := numbered("free", starts)
		bound := ChildSpec{ID: "bound", Run: idle, Limit: Quarantining(2, time.Hour)}
		s, err := Start(t.Context(), Spec{Limit: Escalating(0, time.Hour), Children: []ChildSpec{free, bound, {ID: "done", Run: func(context.Context) error { return nil }, Restart: Transient}}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		synctest.Wait()
		for n := range 20 {
			if i, err := s.ReplaceChild(t.Context(), "free"); err != nil || i.Incarnation != uint64(n+2) || i.InWindow != 0 {
				t.Fatalf("got %+v, %v", i, err)
			}
		}
		if i, err := s.ReplaceCounted(t.Context(), "bound"); err != nil || i.Incarnation != 2 || i.RoomAt.IsZero() {
			t.Fatalf("got %+v, %v", i, err)
		}
		time.Sleep(time.Minute)
		var held *HeldError
		if _, err := s.ReplaceCounted(t.Context(), "bound"); !errors.As(err, &held) || time.Until(held.Until).Round(time.Second) != 59*time.Minute {
			t.Errorf("got %v, want to be held for 59 minutes", err)
		}
		if i, err := s.Child("bound"); err != nil || i.State != Running || i.Incarnation != 2 {
			t.Errorf("it is %+v, %v, want it to run", i, err)
		}
		time.Sleep(time.Hour)
		if i, err := s.ReplaceCounted(t.Context(), "bound"); err != nil || i.Incarnation != 3 || i.InWindow != 1 {
			t.Errorf("got %+v, %v", i, err)
		}
		for n := range 20 {
			if i, err := s.ReplaceChild(t.Context(), "bound"); err != nil || i.Incarnation != uint64(n+4) || i.InWindow != 1 {
				t.Fatalf("got %+v, %v", i, err)
			}
		}
		for id, want := range map[string]error{"done": ErrNotRunning, "none": ErrNotFound} {
			if _, err := s.ReplaceChild(t.Context(), id); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", id, err, want)
			}
		}
	})
}

// TestRestartCounted: a restart that is counted reaches the limit, and is its last
// straw, whatever the child did before; without a limit that counts starts it is as any other.
func TestRestartCounted(t *testing.T) {
	cause := errors.New("by a rule")
	for name, before := range map[string]func(context.Context, *Supervisor) error{
		"runs":      func(context.Context, *Supervisor) error { return nil },
		"stopped":   func(ctx context.Context, s *Supervisor) error { return s.TerminateChild(ctx, "a") },
		"suspended": func(ctx context.Context, s *Supervisor) error { return s.SuspendChild(ctx, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last LimitReached
				s, err := Start(t.Context(), Spec{
					Limit: Escalating(0, time.Hour),
					OnEvent: func(e Event) {
						if e, ok := e.(LimitReached); ok {
							last = e
						}
					},
					Children: []ChildSpec{{ID: "a", Run: idle, Limit: Quarantining(3, time.Hour)}, {ID: "free", Run: idle}},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { s.Stop(); s.Wait() }()
				for n := range 2 {
					if err := before(t.Context(), s); err != nil {
						t.Fatal(err)
					}
					if i, err := s.RestartCounted(t.Context(), "a", cause); err != nil || i.State != Running || i.Incarnation != uint64(n+2) {
						t.Fatalf("got %+v, %v", i, err)
					}
				}
				if err := before(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				var limit *LimitError
				if _, err := s.RestartCounted(t.Context(), "a", cause); !errors.As(err, &limit) || limit.Exit.Err != cause {
					t.Errorf("got %v, want the limit", err)
				}
				synctest.Wait()
				if i, err := s.Child("a"); err != nil || i.State != Quarantined || i.LastExit.Err != cause || last.Exit.Err != cause || last.Until.IsZero() {
					t.Errorf("it is %+v, %v; the limit: %+v", i, err, last)
				}
				if _, err := s.RestartCounted(t.Context(), "a", cause); !errors.Is(err, ErrRestarting) {
					t.Errorf("of one that is held: %v", err)
				}
				time.Sleep(time.Hour + time.Second)
				synctest.Wait()
				if i, err := s.Child("a"); err != nil || i.State != Running {
					t.Errorf("when there is room: %+v, %v", i, err)
				}
				for range 20 {
					if _, err := s.RestartCounted(t.Context(), "free", cause); err != nil {
						t.Fatal(err)
					}
				}
				if i, err := s.ReplaceChild(t.Context(), "free"); err != nil || i.Incarnation != 22 {
					t.Errorf("renewed after that: %+v, %v", i, err)
				}
			})
		})
	}
}

// Somebody who stops a child while it is being renewed has the last word.
func TestRenewStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil
		}
		s, err := Start(t.Context(), Spec{Children: []ChildSpec{{ID: "a", Run: slow}}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		renewed := make(chan error, 1)
		go func() {
			_, err := s.ReplaceChild(t.Context(), "a")
			renewed <- err
		}()
		synctest.Wait()
		if _, err := s.ReplaceChild(t.Context(), "a"); !errors.Is(err, ErrRestarting) {
			t.Errorf("got %v, want %v", err, ErrRestarting)
		}
		if err := s.SuspendChild(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := <-renewed; !errors.Is(err, ErrTerminated) {
			t.Errorf("got %v, want %v", err, ErrTerminated)
		}
		if i := info(t, s); i.State != Suspended {
			t.Errorf("it is %v", i.State)
		}
	})
}

// A changed limit releases the children that it would not hold now.
func TestUpdateReleases(t *testing.T) {
	crash := func(context.Context) error { return errors.New("boom") }
	for name, limits := range map[string][2]Limit{
		"limit removed": {Quarantining(1, time.Hour), {Max: Unlimited}},
		"another one":   {Quarantining(1, time.Hour), Quarantining(2, time.Hour)},
		"given up":      {GivingUp(1), GivingUp(2)},
		"the same":      {Quarantining(1, time.Hour), Quarantining(1, time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Start(t.Context(), Spec{Children: []ChildSpec{{ID: "a", Run: crash, Limit: limits[0], Backoff: Backoff{StableAfter: -1}}}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { s.Stop(); s.Wait() }()
				if i := info(t, s); i.State != Quarantined && i.State != GivenUp {
					t.Fatalf("it is %v", i.State)
				}
				if err := s.Update(context.Background(), Spec{Children: []ChildSpec{{ID: "a", Run: idle, Limit: limits[1]}}}); err != nil {
					t.Fatal(err)
				}
				if i := info(t, s); (i.State == Running) != (name != "the same") {
					t.Errorf("it is %v", i.State)
				}
			})
		})
	}
}

// TestRestartCountedGivesUp: where a limit gives up, a restart that is counted is one
// of those in a row, and a long life before it resets the count.
func TestRestartCountedGivesUp(t *testing.T) {
	cause := errors.New("by a rule")
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(t.Context(), Spec{Children: []ChildSpec{{ID: "a", Run: idle, Limit: GivingUp(3)}}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		for n := range 10 {
			time.Sleep(DefaultStableAfter)
			if i, err := s.RestartCounted(t.Context(), "a", cause); err != nil || i.InWindow != 1 {
				t.Fatalf("restart %d after a long life: %+v, %v", n, i, err)
			}
		}
		for n := range 2 {
			if i, err := s.RestartCounted(t.Context(), "a", cause); err != nil || i.InWindow != n+2 {
				t.Fatalf("restart %d: %+v, %v", n, i, err)
			}
		}
		var limit *LimitError
		if _, err := s.RestartCounted(t.Context(), "a", cause); !errors.As(err, &limit) || limit.Exit.Err != cause {
			t.Errorf("got %v, want the limit", err)
		}
		if i := info(t, s); i.State != GivenUp || i.LastExit.Err != cause || i.Incarnation != 13 {
			t.Errorf("it is %+v", i)
		}
		if _, err := s.RestartCounted(t.Context(), "a", cause); !errors.Is(err, ErrRestarting) {
			t.Errorf("of one that is given up: %v", err)
		}
	})
}
