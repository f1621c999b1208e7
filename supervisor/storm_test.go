package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// storm runs a child that ends at once until it has been started n times, and
// waits for that.
func storm(t *testing.T, n int64, spec Spec, child ChildSpec, end func() error) *Supervisor {
	t.Helper()
	var starts atomic.Int64
	enough := make(chan struct{})
	child.ID, child.Limit = "stormy", Limit{Max: Unlimited}
	child.Run = func(ctx context.Context) error {
		if starts.Add(1) == n {
			close(enough)
			<-ctx.Done()
			return nil
		}
		return end()
	}
	spec.Children = append(spec.Children, child)
	s, err := Start(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-enough:
	case <-time.After(time.Minute):
		i, err := s.Child("stormy")
		t.Fatalf("lost after %d starts: %+v, %v", starts.Load(), i, err)
	}
	return s
}

func finish(t *testing.T, s *Supervisor) {
	t.Helper()
	s.Stop()
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}

// No restart is lost, however soon the child ends. (Rows 11.12 and 11.13.)
func TestNoRestartIsLost(t *testing.T) {
	many := int64(100_000)
	if testing.Short() {
		many = 10_000
	}
	for name, end := range map[string]func() error{
		"error": func() error { return errBoom }, "normal": func() error { return nil }, "panic": func() error { panic("storm") },
	} {
		t.Run(name, func(t *testing.T) {
			s := storm(t, many, Spec{Children: kids("x", "y")}, ChildSpec{}, end)
			i, err := s.Child("stormy")
			if err != nil || i.Incarnation != uint64(many) || i.Restarts != int(many)-1 || i.State != Running {
				t.Errorf("%+v, %v", i, err)
			}
			finish(t, s)
		})
	}
	t.Run("group", func(t *testing.T) {
		finish(t, storm(t, many/10, Spec{Strategy: OneForAll, Children: kids("x", "y")}, ChildSpec{}, func() error { return errBoom }))
	})
	t.Run("ready", func(t *testing.T) { // its starts fail
		s := storm(t, many, Spec{StartFailure: Retry, Children: kids("x", "y")}, ChildSpec{WaitReady: true}, func() error { return errBoom })
		finish(t, s)
	})
}

// A loop of restarts that never ends holds up neither calls nor the end.
func TestStopInAStorm(t *testing.T) {
	for _, strategy := range []Strategy{OneForOne, OneForAll, RestForOne} {
		t.Run(strategy.String(), func(t *testing.T) {
			s, err := Start(context.Background(), Spec{Strategy: strategy, Limit: Limit{Max: Unlimited}, Children: append(kids("x", "y"),
				ChildSpec{ID: "stormy", Run: func(context.Context) error { return errBoom }})})
			if err != nil {
				t.Fatal(err)
			}
			for n := range 1000 {
				if _, err := s.Count(); err != nil {
					t.Fatal(err)
				}
				if err := only(s.StartChild(context.Background(), ChildSpec{ID: fmt.Sprint(n), Restart: Temporary, Run: idle})); err != nil && !errors.Is(err, ErrTerminated) {
					t.Fatal(err)
				}
			}
			finish(t, s)
		})
	}
}

// The order of the end of a loop: terminate ends it for good.
func TestTerminateInAStorm(t *testing.T) {
	s, err := Start(context.Background(), Spec{Limit: Limit{Max: Unlimited}, Children: []ChildSpec{
		{ID: "stormy", Run: func(context.Context) error { return errBoom }}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := s.TerminateChild(context.Background(), "stormy"); err != nil {
			t.Fatal(err)
		}
		if i, err := s.Child("stormy"); err != nil || i.State != Stopped {
			t.Fatalf("%+v, %v", i, err)
		}
		if err := only(s.RestartChild(context.Background(), "stormy")); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, s)
}
