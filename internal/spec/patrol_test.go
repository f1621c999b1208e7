package spec

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// TestOutage simulates a two-minute outage of a dependency of a hundred agents. With the
// defaults none of them is quarantined, and all run within a minute after it.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := time.Now().Add(2 * time.Minute)
		root := supervisor.Spec{Name: "x", Limit: DefaultPatrol().Limit}
		for i := range 100 {
			root.Children = append(root.Children, supervisor.ChildSpec{
				ID: strconv.Itoa(i), Backoff: DefaultBackoff(),
				Run: func(ctx context.Context) error {
					if time.Now().Before(over) {
						return errors.New("connection refused")
					}
					<-ctx.Done()
					return nil
				},
			})
		}
		s, err := supervisor.Start(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		time.Sleep(time.Until(over) + DefaultBackoff().Cap)
		synctest.Wait()
		children, err := s.Children()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range children {
			if c.State != supervisor.Running {
				t.Errorf("%s is %v after %d starts", c.ID, c.State, c.InWindow)
			}
		}
	})
}

// TestCrashLoop checks that the defaults quarantine an agent that always crashes, without an
// effect on another one.
func TestCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := func(context.Context) error { return errors.New("boom") }
		wait := func(ctx context.Context) error { <-ctx.Done(); return nil }
		s, err := supervisor.Start(t.Context(), supervisor.Spec{Name: "x", Limit: DefaultPatrol().Limit, Children: []supervisor.ChildSpec{
			{ID: "bad", Run: crash, Backoff: DefaultBackoff()}, {ID: "good", Run: wait, Backoff: DefaultBackoff()},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		time.Sleep(20 * time.Minute) // 19 delays of a minute at most
		synctest.Wait()
		bad, err := s.Child("bad")
		if err != nil || bad.State != supervisor.Quarantined || bad.Incarnation != uint64(DefaultPatrol().Limit.Max) {
			t.Errorf("%v, %v, incarnation %d", err, bad.State, bad.Incarnation)
		}
		if good, err := s.Child("good"); err != nil || good.State != supervisor.Running || good.Incarnation != 1 {
			t.Errorf("%v, %v, incarnation %d", err, good.State, good.Incarnation)
		}
	})
}
