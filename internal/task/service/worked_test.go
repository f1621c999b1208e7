package service

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/task"
)

// The task of an incarnation is the one that it has claimed, unless there are several.
func TestWorked(t *testing.T) {
	t.Parallel()
	s := &Service{}
	expect := func(what, path string, incarnation uint64, expected string) {
		t.Helper()
		if got := s.Worked(path, incarnation); got != expected {
			t.Errorf("%s: %q, expected %q", what, got, expected)
		}
	}
	expect("before a claim", "t/a", 1, "")
	s.worked.note(nil, "x-1")
	s.worked.note(&task.Holder{By: "ann"}, "x-1")
	expect("of a person", "ann", 0, "")
	s.worked.note(&task.Holder{By: "t/a", Incarnation: 1}, "x-1")
	s.worked.note(&task.Holder{By: "t/a", Incarnation: 1}, "x-1")
	expect("one", "t/a", 1, "x-1")
	expect("another incarnation", "t/a", 2, "")
	expect("another agent", "t/b", 1, "")
	s.worked.note(&task.Holder{By: "t/a", Incarnation: 1}, "x-2")
	expect("two", "t/a", 1, "")
	s.worked.note(&task.Holder{By: "t/a", Incarnation: 2}, "x-2")
	expect("the next incarnation", "t/a", 2, "x-2")
	expect("the one before", "t/a", 1, "")
}
