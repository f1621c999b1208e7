package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
	"github.com/coppice-dev/coppice/internal/task/transfer"
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
	if got := d.Attempts[0]; got.Number != 1 || got.By != "t/a" || got.Incarnation != 1 || got.BeganAt.IsZero() ||
		got.EndedAt.Before(got.BeganAt) ||
		got.Outcome.Context.Obstacle.Kind != outcome.VerificationFailed {
		t.Errorf("%+v", got)
	}
	if got := d.Attempts[1].Outcome.String(); got != "postponed: eclipse: dark" {
		t.Errorf("what a later version has written is %q", got)
	}
	if got := d.Comments[0]; got.By != "t/a" || !strings.HasPrefix(got.Text,
		"Attempt 1: retryable: verification failed: it is so\nApproach: as told") {
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
	err := q.engine.decide(t.Context(), func(s *task.Step) error {
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

// An agent that dies with as many tasks as it may hold releases all of them. Each of them fits into a step with others,
// also if their pool is paused because of them.
func TestReleaseMany(t *testing.T) {
	s := memory.New()
	defer s.Close()
	o := testOptions(s)
	o.PoolLimit = func() pools.Limit { return pools.Limit{Max: 3, Within: time.Hour} }
	o.Also = func(e task.Event) []store.Op {
		return []store.Op{{Kind: store.Append, Key: "log", Value: []byte(e.Kind)}}
	}
	q := openWith(t, o)
	defer q.Close()
	a := agent("t/a", 1)
	begin(t, q, a)
	var ids []string
	for range task.MaxHeld {
		made := create(t, q, task.Draft{Title: "x", Pool: "p"})
		claim(t, q, a, task.Claiming{ID: made.ID})
		ids = append(ids, made.ID)
	}
	q.End("t/a", 1, task.Exit{Failure: "exit code 1", Output: []string{"oh no"}})
	if err := q.ReleaseOrphans(t.Context(), "t/a"); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got := find(t, q, id); got.Claim != nil || got.FailedClaims != 1 || !got.Paused {
			t.Fatalf("%+v", got)
		}
	}
	var all []pools.Pool
	err := q.View(t.Context(), func(s *task.State) { all = s.Pools() })
	if err != nil || len(all) != 1 || all[0].State != pools.Paused {
		t.Errorf("%+v, %v", all, err)
	}
}

// An imported file may nest decompositions deeper than outcomes can. It is worked through all the same.
func TestDeepImport(t *testing.T) {
	q := fresh(t)
	var file strings.Builder
	const depth = 300
	for i := range depth {
		parent := ""
		if i > 0 {
			parent = fmt.Sprintf(`,"dependencies":[{"issue_id":"b-%d","depends_on_id":"b-%d","type":"parent-child"}]`,
				i, i-1)
		}
		fmt.Fprintf(&file, `{"id":"b-%d","title":"x","status":"open"%s,"coppice":{"decomposed":%v}}`+"\n", i, parent,
			i < depth-1)
	}
	bring(t, q, file.String())
	a := agent("t/a", 1)
	begin(t, q, a)
	for n := 0; find(t, q, "b-0").Status != task.Closed; n++ {
		if n > depth {
			t.Fatal("it does not end")
		}
		finish(t, q, a, claim(t, q, a, task.Claiming{Any: true}).ID)
	}
}

// An import accepts the outcomes that there are, and that of earlier versions.
func TestImportedOutcome(t *testing.T) {
	for outcome, ok := range map[string]bool{"cancelled": true, "failed": true, "done\\u001b[2J": false} {
		_, err := transfer.ParseBead([]byte(`{"id":"b-1","title":"x","status":"closed","coppice":{"outcome":"` +
			outcome + `"}}`))
		if (err == nil) != ok {
			t.Errorf("%s: %v", outcome, err)
		}
	}
}
