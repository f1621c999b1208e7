package task

import (
	"errors"
	"testing"
)

// Only the current incarnation of an agent can act and end. Numbers may repeat, so claims are told apart by the Life.
func TestIncarnations(t *testing.T) {
	i := incarnations{running: map[string]Life{"t/a": {2, "second"}}, ended: map[string]end{}}
	for _, tt := range []struct {
		actor Actor
		alive bool
	}{
		{Actor{Path: "t/a", Incarnation: 2}, true},
		{Actor{Path: "t/a", Incarnation: 1}, false},
		{Actor{Path: "t/a"}, false},
		{Actor{Path: "t/b"}, false},
		{Actor{Name: "t/a"}, true}, // a person
	} {
		if err := i.check(tt.actor); tt.alive != (err == nil) || err != nil && !errors.Is(err, ErrStale) {
			t.Errorf("%+v: %v", tt.actor, err)
		}
	}
	mine := &Holder{By: "t/a", Incarnation: 2, Life: "second"}
	for claim, orphaned := range map[Holder]bool{
		*mine: false,
		{By: "t/a", Incarnation: 2, Life: "before the restart"}: true,
		{By: "t/a", Incarnation: 1, Life: "first"}:              true,
		{By: "t/b", Incarnation: 1, Life: "x"}:                  true,
		{By: "t/a"}:                                             false, // a person
	} {
		if got := i.orphaned(&claim); got != orphaned {
			t.Errorf("%+v is orphaned: %t", claim, got)
		}
	}
	if i.end("t/a", 1, Exit{Cause: "late"}) || i.orphaned(mine) || i.exit(mine).Cause != "" {
		t.Error("the end of an earlier incarnation ends the current one")
	}
	if !i.end("t/a", 2, Exit{Cause: "shutdown"}) || !i.orphaned(mine) || i.exit(mine).Cause != "shutdown" {
		t.Errorf("it goes on: %+v", i)
	}
	other := Holder{By: "t/a", Incarnation: 2, Life: "before the restart"}
	if got := i.exit(&other); got.Cause != "" {
		t.Errorf("the exit of another incarnation is %+v", got)
	}
}
