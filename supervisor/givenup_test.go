package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
		check("after a reset", 8, 3, GivenUp)
	})
}

// What says itself that another run is of no use is given up at once, whatever its count.
func TestGiveUpAtOnce(t *testing.T) {
	hopeless := fmt.Errorf("no tokens: %w", ErrDoNotRestart)
	for _, c := range []struct {
		name  string
		limit Limit
		ends  []error // the last goes on
		runs  int
		state State
	}{
		{"at first", GivingUp(5), []error{hopeless}, 1, GivenUp},
		{"after failures", GivingUp(5), []error{errors.New("failed"), hopeless}, 2, GivenUp},
		{"after its count is full it is given up in any case", GivingUp(2), []error{errors.New("failed")}, 3, GivenUp},
		{"in a window", Limit{Max: 3, Within: time.Hour, Count: CountStarts, Scope: ScopeChild, OnLimit: GiveUp}, []error{hopeless}, 1, GivenUp},
		{"where the limit is another", Quarantining(3, time.Hour), []error{hopeless}, 3, Quarantined},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				var last LimitReached
				s, err := Start(context.Background(), Spec{OnEvent: func(e Event) {
					if e, ok := e.(LimitReached); ok {
						last = e
					}
				}, Children: []ChildSpec{{
					ID: "a", Restart: Transient, Limit: c.limit, Backoff: Backoff{Kind: Fixed, StableAfter: -1},
					Run: func(context.Context) error { runs++; return c.ends[min(runs, len(c.ends))-1] },
				}}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { s.Stop(); s.Wait() }()
				time.Sleep(time.Minute)
				synctest.Wait()
				if info, err := s.Child("a"); err != nil || runs != c.runs || info.State != c.state {
					t.Errorf("%d runs, state %v, %v; expected %d, %v", runs, info.State, err, c.runs, c.state)
				}
				if c.state != GivenUp {
					return
				}
				// What was not reached is not said to be.
				counted, said := !errors.Is(last.Exit.Err, ErrDoNotRestart), last.String()
				if strings.Contains(said, "reached its limit") != counted || strings.Contains(said, "given up:") == counted {
					t.Error(said)
				}
				before := runs // by hand it runs once, as whatever was given up
				if _, err := s.RestartChild(context.Background(), "a"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if info, _ := s.Child("a"); runs != before+1 || info.State != GivenUp {
					t.Errorf("by hand: %d runs, state %v", runs-before, info.State)
				}
			})
		})
	}
}
