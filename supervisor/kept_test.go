package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What a limit of its own has counted of a child, and has decided about it,
// outlives the supervisor above it: nobody gets a fresh budget because something
// else has failed. A person who starts that supervisor gives one.
func TestBudgetsOutliveSupervisors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := map[string]chan error{}
		child := func(id string, limit Limit) ChildSpec {
			fail := make(chan error)
			fails[id] = fail
			return ChildSpec{ID: id, Limit: limit, Run: func(ctx context.Context) error {
				select {
				case err := <-fail:
					return err
				case <-ctx.Done():
					return nil
				}
			}}
		}
		quarantine := Limit{Max: 3, Within: time.Hour, Count: CountStarts, Scope: ScopeChild, Then: Quarantine}
		giveUp := Limit{Max: 1, Count: CountConsecutive, Scope: ScopeChild, Then: GiveUp}
		inner := &Spec{Children: []ChildSpec{child("held", quarantine), child("going", quarantine), child("done", giveUp)}}
		s, err := Start(t.Context(), Spec{Strategy: OneForAll, Limit: Escalating(9, time.Hour), Children: []ChildSpec{
			child("beside", Limit{}), {ID: "inner", Supervisor: inner},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		errBoom := errors.New("boom")
		fail := func(id string) {
			t.Helper()
			fails[id] <- errBoom
			synctest.Wait()
		}
		want := func(when, id string, state State, incarnation uint64) {
			t.Helper()
			info, err := s.Child("inner")
			if err != nil {
				t.Fatal(err)
			}
			got, err := info.Sub.Child(id)
			if err != nil || got.State != state || got.Incarnation != incarnation {
				t.Errorf("%s: %s is %v, incarnation %d (%v), want %v, incarnation %d", when, id, got.State, got.Incarnation, err, state, incarnation)
			}
		}
		for range 3 {
			fail("held")
		}
		fail("done")
		fail("done")
		fail("going")
		want("at first", "held", Quarantined, 3)
		want("at first", "done", GivenUp, 2)
		want("at first", "going", Running, 2)

		for range 2 {
			fail("beside")
		}
		want("after restarts of the group", "held", Quarantined, 3)
		want("after restarts of the group", "done", GivenUp, 2)
		want("after restarts of the group", "going", Running, 4)
		fail("going")
		want("with a third start of its own", "going", Running, 5)
		fail("going")
		want("with its budget used up", "going", Quarantined, 5)

		time.Sleep(time.Hour + time.Second)
		want("after an hour", "held", Running, 4)
		want("after an hour", "going", Running, 6)
		want("after an hour", "done", GivenUp, 2)

		if err := s.TerminateChild(t.Context(), "inner"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.RestartChild(t.Context(), "inner"); err != nil {
			t.Fatal(err)
		}
		want("started by hand", "done", Running, 3)
		for range 2 {
			fail("held")
		}
		want("with a fresh budget", "held", Running, 7)
		fail("held")
		want("that is used up", "held", Quarantined, 7)
	})
}
