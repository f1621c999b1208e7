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

// What a limit of its own has counted of a child, and has decided about it,
// outlives the supervisor above it: its crash resets no budget because something
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
		quarantine := Limit{Max: 3, Within: time.Hour, Count: CountStarts, Scope: ScopeChild, OnLimit: Quarantine}
		giveUp := Limit{Max: 1, Count: CountConsecutive, Scope: ScopeChild, OnLimit: GiveUp}
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

// What is suspended by hand is resumed as it was: a child that was stopped by
// itself stays so with its reason, and one that had ended for good does not run
// again. A failure starts that with its siblings, as before.
func TestSuspendedSupervisorGoesOnAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan error)
		idle := func(ctx context.Context) error { <-ctx.Done(); return nil }
		ends := func(context.Context) error { return nil }
		inner := &Spec{Limit: Escalating(1, time.Hour), Children: []ChildSpec{
			{ID: "stopped", Run: idle},
			{ID: "migrate", Run: ends, Restart: Transient},
			{ID: "once", Run: ends, Restart: Temporary},
			{ID: "deep", Supervisor: &Spec{Children: []ChildSpec{{ID: "below", Run: ends, Restart: Transient}}}},
			{ID: "going", Run: func(ctx context.Context) error {
				select {
				case err := <-fail:
					return err
				case <-ctx.Done():
					return nil
				}
			}},
		}}
		s, err := Start(t.Context(), Spec{Children: []ChildSpec{{ID: "inner", Supervisor: inner}}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		synctest.Wait()
		find := func(path ...string) ChildInfo {
			t.Helper()
			info, err := s.Child("inner")
			for _, id := range path {
				if err == nil {
					info, err = info.Sub.Child(id)
				}
			}
			if err != nil {
				t.Fatalf("%v: %v", path, err)
			}
			return info
		}
		if err := find().Sub.SuspendChild(t.Context(), "stopped", ReasonStopped); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.SuspendChild(t.Context(), "inner", ReasonSuspended); err != nil {
				t.Fatal(err)
			}
			if i, _ := s.Child("inner"); i.State != Suspended || i.Reason != ReasonSuspended {
				t.Errorf("inner is %v: %v, want suspended until it is resumed", i.State, i.Reason)
			}
			if _, err := s.RestartChild(t.Context(), "inner"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for _, want := range []struct {
				path   []string
				state  State
				reason Reason
				gen    uint64
			}{
				{[]string{"stopped"}, Suspended, ReasonStopped, 1},
				{[]string{"migrate"}, Stopped, ReasonTransientClean, 1},
				{[]string{"once"}, Stopped, ReasonTemporary, 1},
				{[]string{"deep", "below"}, Stopped, ReasonTransientClean, 1},
			} {
				if i := find(want.path...); i.State != want.state || i.Reason != want.reason || i.Incarnation != want.gen {
					t.Errorf("%v is %v: %v, incarnation %d, want %+v", want.path, i.State, i.Reason, i.Incarnation, want)
				}
			}
			if i := find("going"); i.State != Running {
				t.Errorf("going is %v after the resume", i.State)
			}
		}
		for range 2 { // inner reaches its limit and is started again by its parent
			fail <- errors.New("boom")
			synctest.Wait()
		}
		if i := find("migrate"); i.Incarnation != 2 {
			t.Errorf("migrate is at incarnation %d after its supervisor has failed, want 2", i.Incarnation)
		}
		if i := find("stopped"); i.State != Suspended || i.Reason != ReasonStopped {
			t.Errorf("stopped is %v: %v after its supervisor has failed", i.State, i.Reason)
		}
	})
}

// A call says why, and events and the child's picture say the same.
func TestCallsSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		idle := func(ctx context.Context) error { <-ctx.Done(); return nil }
		s, err := Start(t.Context(), Spec{
			Children: []ChildSpec{{ID: "a", Run: idle}},
			OnEvent: func(e Event) {
				switch e.(type) {
				case ChildStopping, ChildStopped, ChildChanged:
					told = append(told, e.String())
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err = s.ReplaceChild(t.Context(), "a", ReasonChanged)
		check(err)
		check(s.SuspendChild(t.Context(), "a", ReasonSuspended))
		check(s.SuspendChild(t.Context(), "a", ReasonSuspended)) // nothing new
		check(s.SuspendChild(t.Context(), "a", ReasonStopped))
		if i, _ := s.Child("a"); i.State != Suspended || i.Reason != ReasonStopped {
			t.Errorf("it is %v: %v", i.State, i.Reason)
		}
		_, err = s.RestartChild(t.Context(), "a")
		check(err)
		check(s.TerminateChild(t.Context(), "a"))
		s.Stop()
		s.Wait()
		synctest.Wait()
		want := []string{
			"root/a stopping: its configuration has changed", "root/a stopped: completed (its configuration has changed)",
			"root/a stopping: suspended until it is resumed", "root/a stopped: completed (suspended until it is resumed)",
			"root/a is suspended: stopped by hand",
			"root/a stopping: stopped on request", "root/a stopped: completed (stopped on request)",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told:\n%s\nwant:\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
	})
}

// The number of a child of a nested supervisor never goes back: not when the child is deleted
// and listed again, and not when a child is new while its supervisor is down.
func TestNumbersNeverGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := func(ctx context.Context) error { <-ctx.Done(); return nil }
		adopted := &Saved{State: Waiting, Incarnation: 1, Adopt: true}
		inner := func(children ...ChildSpec) Spec {
			return Spec{Children: []ChildSpec{{ID: "inner", Supervisor: &Spec{Children: children}}}}
		}
		a, b := ChildSpec{ID: "a", Run: idle, Saved: adopted}, ChildSpec{ID: "b", Run: idle}
		s, err := Start(t.Context(), inner(a, b))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		find := func(id string) ChildInfo {
			t.Helper()
			info, err := s.Child("inner")
			check(err)
			got, err := info.Sub.Child(id)
			check(err)
			return got
		}
		again := func() {
			t.Helper()
			check(s.SuspendChild(t.Context(), "inner"))
			_, err := s.RestartChild(t.Context(), "inner")
			check(err)
		}
		remove := func(id string) {
			t.Helper()
			info, err := s.Child("inner")
			check(err)
			check(info.Sub.TerminateChild(t.Context(), id))
			check(info.Sub.DeleteChild(id))
		}
		again()
		if n := find("a").Incarnation; n != 2 {
			t.Errorf("a is at %d after its supervisor was restarted, want 2", n)
		}
		remove("a")
		again()
		if n := find("a").Incarnation; n != 3 {
			t.Errorf("a is at %d after it was deleted and its supervisor was restarted, want 3", n)
		}
		check(s.SuspendChild(t.Context(), "inner"))
		c := ChildSpec{ID: "c", Run: idle, Saved: &Saved{State: Waiting, Incarnation: 7}}
		check(s.Update(context.Background(), inner(a, b, c)))
		_, err = s.RestartChild(t.Context(), "inner")
		check(err)
		if n := find("c").Incarnation; n != 8 {
			t.Errorf("c, which was at 7 in an earlier life of the tree, is at %d, want 8", n)
		}
		remove("a")
		info, err := s.Child("inner")
		check(err)
		got, err := info.Sub.StartChild(t.Context(), ChildSpec{ID: "a", Run: idle})
		check(err)
		if got.Incarnation != 5 {
			t.Errorf("a is at %d after it was added again, want 5", got.Incarnation)
		}
	})
}

// The number of a nested supervisor does not go back, either, when the one above is restarted.
func TestNumbersOfSupervisors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := func(ctx context.Context) error { <-ctx.Done(); return nil }
		deep := &Spec{Children: []ChildSpec{{ID: "a", Run: idle}}}
		inner := &Spec{Children: []ChildSpec{{ID: "deep", Supervisor: deep}}}
		s, err := Start(t.Context(), Spec{Children: []ChildSpec{{ID: "inner", Supervisor: inner}}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		for want := range uint64(3) {
			info, err := s.Child("inner")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := info.Sub.Child("deep"); err != nil || got.Incarnation != want+1 {
				t.Errorf("it is at %d, want %d: %v", got.Incarnation, want+1, err)
			}
			if err := s.SuspendChild(t.Context(), "inner"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.RestartChild(t.Context(), "inner"); err != nil {
				t.Fatal(err)
			}
		}
	})
}
