package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What was given up can be started by hand: it runs once, and its count stays
// until it succeeds.
func TestRestartChildOfWhatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, fails := 0, true
		given := 0
		s, err := Start(context.Background(), Spec{
			Children: []ChildSpec{{ID: "a", Restart: Transient, Limit: GivingUp(2), Backoff: Backoff{Kind: Fixed, StableAfter: -1}, Run: func(context.Context) error {
				runs++
				if fails {
					return errors.New("failed")
				}
				return nil
			}}},
			OnEvent: func(e Event) {
				if _, ok := e.(LimitReached); ok {
					given++
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		check := func(what string, n, announced int, state State) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if info, err := s.Child("a"); err != nil || runs != n || info.State != state || given != announced {
				t.Errorf("%s: %d runs, announced %d times, state %v, %v; expected %d, %d, %v", what, runs, given, info.State, err, n, announced, state)
			}
		}
		check("at first", 3, 1, GivenUp)
		if _, err := s.RestartChild(context.Background(), "a"); err != nil {
			t.Fatal(err)
		}
		check("by hand", 4, 2, GivenUp)
		fails = false
		if _, err := s.RestartChild(context.Background(), "a"); err != nil {
			t.Fatal(err)
		}
		check("a success", 5, 2, Stopped)
		fails = true
		if _, err := s.RestartChild(context.Background(), "a"); err != nil {
			t.Fatal(err)
		}
		check("afresh", 8, 3, GivenUp)
	})
}
