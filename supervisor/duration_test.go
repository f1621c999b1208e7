package supervisor

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Events say how long starts took, whether they succeeded or not, and how long a child ran that was stopped.
func TestDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []time.Duration
		s, err := Launch(t.Context(), Spec{Name: "s", OnEvent: func(e Event) {
			switch e := e.(type) {
			case ChildStarted:
				got = append(got, e.Took)
			case ChildStartFailed:
				got = append(got, e.Took)
			case ChildStopped:
				got = append(got, e.Uptime)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		starts := 0
		child := ChildSpec{ID: "a", WaitReady: true, Run: func(ctx context.Context) error {
			starts++
			time.Sleep(time.Duration(starts) * time.Second)
			if starts == 1 {
				return errors.New("boom")
			}
			Ready(ctx)
			<-ctx.Done()
			return nil
		}}
		_, first := s.StartChild(t.Context(), child)
		if _, err := s.StartChild(t.Context(), child); first == nil || err != nil {
			t.Fatal(first, err)
		}
		time.Sleep(5 * time.Second)
		s.Stop()
		s.Wait()
		if want := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}
