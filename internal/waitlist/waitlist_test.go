package waitlist

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// Agents that wait are started, all or one, and one that does not wait any longer is forgotten.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := map[string]*atomic.Int32{"a": {}, "b": {}, "c": {}}
		var children []supervisor.ChildSpec
		for _, id := range []string{"a", "b", "c"} {
			children = append(children, supervisor.ChildSpec{
				ID: id, Restart: supervisor.Permanent,
				Start: func(context.Context) (supervisor.Process, error) {
					starts[id].Add(1)
					return nil, &supervisor.RetryError{At: time.Now().Add(time.Hour), Err: errors.New("used up")}
				},
			})
		}
		sup, err := supervisor.Launch(t.Context(), supervisor.Spec{Name: "t", Children: children})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { sup.Kill(); sup.Wait() }()
		synctest.Wait()
		l := List{
			Locate: func(path string) (*supervisor.Supervisor, string, error) { return sup, path, nil },
			Go:     func(do func(context.Context)) { do(t.Context()) },
		}
		l.Add("gone", "x")
		l.Add("c", "y")
		l.Add("b", "x", "y")
		l.Add("a", "x")
		counts := func(a, b, c int32) {
			t.Helper()
			synctest.Wait()
			got := []int32{starts["a"].Load(), starts["b"].Load(), starts["c"].Load()}
			if !slices.Equal(got, []int32{a, b, c}) {
				t.Errorf("starts: %v, expected %v", got, []int32{a, b, c})
			}
		}
		counts(1, 1, 1)
		if got := l.For("x"); !slices.Equal(got, []string{"a", "b", "gone"}) {
			t.Errorf("%v wait for x", got)
		}
		l.Start([]string{"gone", "a", "b"}, false)
		counts(2, 1, 1)
		l.Start(l.For("y"), true)
		counts(2, 2, 2)
		l.Remove("b")
		if got := l.Paths(); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("%v wait", got)
		}
	})
}

// An agent whose supervisor has not heard yet that it waits is tried again, and one that does not wait is forgotten.
func TestStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts atomic.Int32
		wait := func(context.Context) (supervisor.Process, error) {
			if starts.Add(1) == 1 {
				time.Sleep(again / 2)
			}
			return nil, &supervisor.RetryError{At: time.Now().Add(time.Hour), Err: errors.New("used up")}
		}
		sup, err := supervisor.Launch(t.Context(), supervisor.Spec{Name: "t", Children: []supervisor.ChildSpec{
			{ID: "late", Restart: supervisor.Permanent, Start: wait},
			{ID: "stopped", Restart: supervisor.Permanent, Start: func(context.Context) (supervisor.Process, error) {
				return nil, supervisor.ErrIgnore
			}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { sup.Kill(); sup.Wait() }()
		l := List{
			Locate: func(path string) (*supervisor.Supervisor, string, error) { return sup, path, nil },
			Go:     func(do func(context.Context)) { do(t.Context()) },
		}
		l.Add("late", "x")
		l.Add("stopped", "x")
		l.Start(l.For("x"), true)
		synctest.Wait()
		if got := l.Paths(); starts.Load() != 2 || !slices.Equal(got, []string{"late"}) {
			t.Errorf("%d starts, %v wait", starts.Load(), got)
		}
	})
}
