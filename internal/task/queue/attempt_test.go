package queue

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
)

// An attempt and the comment about it are kept with the task, over restarts. What a later version has written of an
// attempt is shown as it is.
func TestAttempts(t *testing.T) {
	s := memory.New()
	defer s.Close()
	q := openQueue(t, s)
	defer func() { q.Close() }()
	made := create(t, q, task.Draft{Title: "x"})
	a := agent("t/a", 1)
	begin(t, q, a)
	claim(t, q, a, task.Claiming{ID: made.ID})
	o, err := outcome.New(outcome.Report{Kind: outcome.Retryable, Context: learned(outcome.VerificationFailed)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := q.Report(t.Context(), a, made.ID, o); err != nil || !got.Ready || got.FailedClaims != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	q.Close()
	later := `{"number":2,"by":"t/b","outcome":{"kind":"postponed","context":{"approach":"x","obstacle":{"kind":"eclipse","description":"dark"}}}}`
	if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{
		{Kind: store.Put, Key: key(task.AttemptPart, made.ID) + "/000000002", Value: []byte(later)},
		{Kind: store.Put, Key: key(task.AttemptPart, made.ID) + "/000000003", Value: []byte(`{"number":"three`)},
	}); err != nil {
		t.Fatal(err)
	}
	q = openQueue(t, s)
	d, err := q.Get(t.Context(), made.ID)
	if err != nil || len(d.Attempts) != 2 || len(d.Comments) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	if got := d.Attempts[0]; got.Number != 1 || got.By != "t/a" || got.Incarnation != 1 || got.BeganAt.IsZero() || got.EndedAt.Before(got.BeganAt) ||
		got.Outcome.Context.Obstacle.Kind != outcome.VerificationFailed {
		t.Errorf("%+v", got)
	}
	if got := d.Attempts[1].Outcome.String(); got != "postponed: eclipse: dark" {
		t.Errorf("what a later version has written is %q", got)
	}
	if got := d.Comments[0]; got.By != "t/a" || !strings.HasPrefix(got.Text, "Attempt 1: retryable: verification failed: it is so\nApproach: as told") {
		t.Errorf("%+v", got)
	}
}

// Tasks that are to be cancelled with another one are cancelled with it, along any chain, and also by a queue that is
// opened after a crash in between.
func TestCancelledWith(t *testing.T) {
	s := memory.New()
	defer s.Close()
	q := openQueue(t, s)
	defer func() { q.Close() }()
	first := create(t, q, task.Draft{Title: "first"})
	all := []string{first.ID}
	for range 30 {
		made := create(t, q, task.Draft{Title: "x", DependsOn: all[len(all)-1:], IfDependencyFails: task.CancelWithIt})
		all = append(all, made.ID)
	}
	err := q.decide(t.Context(), func(s *task.Step) error {
		return second(s.Finish(ann, first.ID, task.Ending{Outcome: task.Cancelled}))
	})
	if err != nil {
		t.Fatal(err)
	}
	q.Close() // before the others are cancelled
	q = openQueue(t, s)
	create(t, q, task.Draft{Title: "any change"})
	for _, id := range all {
		if got := find(t, q, id); got.Status != task.Closed || got.Outcome != task.Cancelled {
			t.Fatalf("%+v", got)
		}
	}
}
