package queue

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task"
)

// The last attempts at the tasks of a pool are in the order of their ends, whatever task they were made at.
func TestLastAttempts(t *testing.T) {
	q := fresh(t)
	a := agent("t/a", 1)
	begin(t, q, a)
	one := create(t, q, task.Draft{Title: "one", Pool: "p"})
	two := create(t, q, task.Draft{Title: "two", Pool: "p"})
	o, err := outcome.New(outcome.Report{Kind: outcome.Retryable, Context: learned(outcome.VerificationFailed)})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{one.ID, two.ID, one.ID} {
		claim(t, q, a, task.Claiming{ID: id})
		if _, err := q.Report(t.Context(), a, id, o); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int][]string{1: {"one"}, 2: {"one", "two"}, 9: {"one", "two", "one"}} {
		all, err := q.LastAttempts(t.Context(), "p", n)
		if err != nil || len(all) != len(want) {
			t.Fatalf("%d: %+v, %v", n, all, err)
		}
		for i, tried := range all {
			if tried.Title != want[i] || tried.Attempt.By != "t/a" || tried.Attempt.Outcome.Kind != outcome.Retryable {
				t.Errorf("%d: attempt %d: %+v", n, i, tried)
			}
		}
		if all[0].Task != one.ID || all[0].Attempt.Number != 2 {
			t.Errorf("the last one is %+v", all[0])
		}
	}
	if all, err := q.LastAttempts(t.Context(), "other", 5); len(all) != 0 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
}
