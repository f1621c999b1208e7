package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
)

// claimAndDie lets the next incarnation of an agent claim a task and end.
func claimAndDie(t *testing.T, q *Queue, path string, life uint64, id, failure string) {
	t.Helper()
	actor := agent(path, life)
	begin(t, q, actor)
	claim(t, q, actor, task.Claiming{ID: id})
	q.End(path, life, task.Exit{Failure: failure})
	if err := q.ReleaseOrphans(t.Context(), path); err != nil {
		t.Fatalf("%v", err)
	}
}

// noteKinds is an Options.Also that collects the kinds of events.
func noteKinds(to *[]task.Kind) func(task.Event) []store.Op {
	return func(e task.Event) []store.Op {
		*to = append(*to, e.Kind)
		return nil
	}
}

// A task whose agents fail is parked with the reason, until a person opens it.
func TestParking(t *testing.T) {
	s := memory.New()
	defer s.Close()
	var kinds []task.Kind
	o := testOptions(s)
	o.Also = noteKinds(&kinds)
	q := openWith(t, o)
	defer func() { q.Close() }()
	made := create(t, q, task.Draft{Title: "poison", Pool: "p"})
	for n := range uint64(2) {
		claimAndDie(t, q, "t/a", n+1, made.ID, "exit code 1")
		if got := find(t, q, made.ID); !got.Ready || got.FailedClaims != int(n)+1 || !strings.Contains(got.Reason, "exit code 1") {
			t.Fatalf("after %d claims: %+v", n+1, got)
		}
	}
	q.Close()
	q = openWith(t, o) // the count is durable
	claimAndDie(t, q, "t/a", 3, made.ID, "exit code 7")
	parked := find(t, q, made.ID)
	const reason = "claimed 3 times without a result, last: t/a: exit code 7"
	if parked.Status != task.Parked || parked.Ready || parked.Reason != reason || parked.Claim != nil || parked.Claims != 3 {
		t.Fatalf("%+v", parked)
	}
	if last := kinds[len(kinds)-1]; last != task.Withheld {
		t.Errorf("the last event is %s", last)
	}
	q.Close()
	q = openWith(t, o)
	if got := find(t, q, made.ID); got.Status != task.Parked || got.Reason != reason {
		t.Fatalf("after a restart: %+v", got)
	}
	all, err := q.List(t.Context(), task.Filter{Statuses: []string{string(task.Parked)}}, 0, "")
	if err != nil || len(all) != 1 || q.Parked() != 1 {
		t.Errorf("%v, %d, %v", all, q.Parked(), err)
	}
	if n := q.Counts(); len(n) != len(task.Statuses()) || n[task.Parked] != 1 || n[task.Open] != 0 {
		t.Errorf("%v", n)
	}
	a := agent("t/a", 4)
	begin(t, q, a)
	_, err = tryClaim(t.Context(), q, a, task.Claiming{Pools: []string{"p"}})
	wantErr(t, err, task.ErrNothing)
	next := "coppice task retry " + made.ID
	_, err = tryClaim(t.Context(), q, a, task.Claiming{ID: made.ID})
	wantErr(t, err, task.ErrConflict, "parked", reason, next)
	_, err = retry(t.Context(), q, a, made.ID, "")
	wantErr(t, err, task.ErrConflict, "parked", next)
	open := task.Open
	_, err = edit(t.Context(), q, a, made.ID, task.Edit{Status: &open})
	wantErr(t, err, task.ErrConflict, "parked", next)
	_, err = reopen(t.Context(), q, ann, made.ID, "")
	wantErr(t, err, task.ErrConflict, "parked", next)
	_, err = release(t.Context(), q, ann, made.ID, "")
	wantErr(t, err, task.ErrConflict, "parked", next)
	for _, release := range []func() (task.Task, error){
		func() (task.Task, error) { return retry(t.Context(), q, ann, made.ID, "mended") },
		func() (task.Task, error) { return edit(t.Context(), q, ann, made.ID, task.Edit{Status: &open}) },
	} {
		if got, err := release(); err != nil || !got.Ready || got.FailedClaims != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		for n := range uint64(3) {
			claimAndDie(t, q, "t/a", 10+n, made.ID, "exit code 1")
		}
		if got := find(t, q, made.ID); got.Status != task.Parked {
			t.Fatalf("%+v", got)
		}
	}
}

// learned returns the context of an attempt that has met an obstacle.
func learned(kind outcome.ObstacleKind) *outcome.Context {
	return &outcome.Context{Approach: "as told", Obstacle: outcome.Obstacle{Kind: kind, Description: "it is so"}}
}

// Only claims that end with a failure of the agent count.
func TestWhatParks(t *testing.T) {
	reports := func(r outcome.Report) func(*Queue, task.Actor, string) error {
		return func(q *Queue, actor task.Actor, id string) error {
			o, err := outcome.New(r)
			if err == nil {
				_, err = q.Report(t.Context(), actor, id, o)
			}
			return err
		}
	}
	for _, tt := range []struct {
		how   string
		end   func(q *Queue, actor task.Actor, id string) error
		count int
	}{
		{"the agent failed", func(q *Queue, actor task.Actor, _ string) error {
			q.End(actor.Path, actor.Incarnation, task.Exit{Failure: "exit code 1"})
			return q.ReleaseOrphans(t.Context(), actor.Path)
		}, 1},
		{"the agent was stopped", func(q *Queue, actor task.Actor, _ string) error {
			q.End(actor.Path, actor.Incarnation, task.Exit{})
			return q.ReleaseOrphans(t.Context(), actor.Path)
		}, 0},
		{"a new incarnation, and the end is unknown", func(q *Queue, actor task.Actor, _ string) error {
			q.Begin(actor.Path, lifeOf(actor.Incarnation+1))
			return q.ReleaseOrphans(t.Context(), actor.Path)
		}, 0},
		{"another life of that number failed", func(q *Queue, actor task.Actor, _ string) error {
			q.Begin(actor.Path, task.Life{Incarnation: actor.Incarnation, ID: "another"})
			q.End(actor.Path, actor.Incarnation, task.Exit{Failure: "exit code 1"})
			return q.ReleaseOrphans(t.Context(), actor.Path)
		}, 0},
		{"the agent failed, and its successor is first", func(q *Queue, actor task.Actor, _ string) error {
			q.End(actor.Path, actor.Incarnation, task.Exit{Failure: "exit code 1"})
			q.Begin(actor.Path, lifeOf(actor.Incarnation+1))
			return q.ReleaseOrphans(t.Context(), actor.Path)
		}, 1},
		{"the agent gave it back", func(q *Queue, actor task.Actor, id string) error {
			return second(release(t.Context(), q, actor, id, "no idea"))
		}, 1},
		{"the agent retried it", func(q *Queue, actor task.Actor, id string) error {
			return second(retry(t.Context(), q, actor, id, ""))
		}, 1},
		{"the tests fail", reports(outcome.Report{Kind: outcome.Retryable,
			Context: learned(outcome.VerificationFailed)}), 1},
		{"the server is overloaded",
			reports(outcome.Report{Kind: outcome.Retryable, Context: learned(outcome.Overloaded)}), 0},
		{"the agent put it off", reports(outcome.Report{Kind: outcome.Deferred, NotBefore: new(time.Time),
			Context: learned(outcome.OtherObstacle)}), 0},
		{"the agent is held up", reports(outcome.Report{Kind: outcome.Blocked, Context: learned(outcome.OtherObstacle),
			Condition: &outcome.Condition{Kind: outcome.PersonHas, What: "approved it"}}), 0},
		{"a person decides", reports(outcome.Report{Kind: outcome.Escalated, Context: learned(outcome.GuardDenied),
			Question: "May I?"}), 0},
		{"the agent divided it",
			reports(outcome.Report{Kind: outcome.Decomposed, Context: learned(outcome.OtherObstacle),
				Subtasks: []outcome.Subtask{{ID: "a", Objective: "one"}}}), 0},
		{"a person gave it back", func(q *Queue, _ task.Actor, id string) error {
			return second(release(t.Context(), q, ann, id, ""))
		}, 0},
		{"the agent closed it", func(q *Queue, actor task.Actor, id string) error {
			return second(tryFinish(t.Context(), q, actor, id, task.Ending{}))
		}, 0},
	} {
		t.Run(tt.how, func(t *testing.T) {
			q := fresh(t)
			actor := agent("t/a", 1)
			made := create(t, q, task.Draft{Title: "x", MaxClaims: 2})
			begin(t, q, actor)
			claim(t, q, actor, task.Claiming{ID: made.ID})
			if err := tt.end(q, actor, made.ID); err != nil {
				t.Fatal(err)
			}
			if got := find(t, q, made.ID); got.FailedClaims != tt.count {
				t.Errorf("%d failed claims, want %d: %+v", got.FailedClaims, tt.count, got)
			}
		})
	}
}

// The number of a task overrides the configured one, and 0 means no limit.
func TestMaxClaims(t *testing.T) {
	for _, tt := range []struct{ own, file, parkedAfter int }{{0, 2, 2}, {1, 2, 1}, {4, 2, 4}, {2, 0, 2}, {0, 0, 0}} {
		s := memory.New()
		o := testOptions(s)
		o.MaxClaims = func() int { return tt.file }
		q := openWith(t, o)
		made := create(t, q, task.Draft{Title: "x", MaxClaims: tt.own})
		n := 0
		for n < 6 && find(t, q, made.ID).Status != task.Parked {
			n++
			claimAndDie(t, q, "t/a", uint64(n), made.ID, "exit code 1")
		}
		if parked := find(t, q, made.ID).Status == task.Parked; parked != (tt.parkedAfter > 0) || parked && n != tt.parkedAfter {
			t.Errorf("%+v: parked %v after %d", tt, parked, n)
		}
		q.Close()
		s.Close()
	}
	q := fresh(t)
	for _, n := range []int{-1, spec.MaxClaims + 1} {
		_, _, err := q.Create(t.Context(), ann, task.Draft{Title: "x", MaxClaims: n})
		wantErr(t, err, task.ErrInvalid, fmt.Sprint(n), fmt.Sprint(spec.MaxClaims))
	}
}

// The fields of a parked task are part of its bead.
func TestParkedBead(t *testing.T) {
	q := fresh(t)
	made := create(t, q, task.Draft{Title: "poison", Pool: "p", MaxClaims: 2})
	claimAndDie(t, q, "t/a", 1, made.ID, "exit code 1")
	tried := create(t, q, task.Draft{Title: "tried"})
	claimAndDie(t, q, "t/a", 2, tried.ID, "exit code 1")
	claimAndDie(t, q, "t/a", 3, made.ID, "exit code 1")
	beads := exported(t, q)
	if line := beads[made.ID]; !strings.Contains(line, `"status":"blocked"`) {
		t.Errorf("other programs have to understand %s", line)
	}
	other := fresh(t)
	bring(t, other, beads[made.ID]+"\n"+beads[tried.ID]+"\n")
	for _, id := range []string{made.ID, tried.ID} {
		want, got := find(t, q, id), find(t, other, id)
		if got.Status != want.Status || got.Reason != want.Reason && want.Status == task.Parked || got.FailedClaims != want.FailedClaims || got.MaxClaims != want.MaxClaims {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if again := exported(t, other); again[made.ID] != beads[made.ID] || again[tried.ID] != beads[tried.ID] {
		t.Errorf("%s, want %s", again, beads)
	}
	// Another program that drops these fields removes the reason.
	later := strings.NewReplacer(`"updated_at":"20`, `"updated_at":"21`)
	cutOff, _, _ := strings.Cut(later.Replace(beads[made.ID]), `,"coppice":`)
	bring(t, q, cutOff+"}\n")
	got, want := find(t, q, made.ID), find(t, other, made.ID)
	if got.Status != task.Parked || got.Reason != want.Reason || got.FailedClaims != 2 || got.MaxClaims != 2 {
		t.Errorf("%+v", got)
	}
	// Another program has opened it, which counts as a person's decision.
	line := strings.Replace(beads[made.ID], `"status":"blocked"`, `"status":"open"`, 1)
	third := fresh(t)
	bring(t, third, line+"\n")
	bring(t, other, later.Replace(line)+"\n")
	for _, q := range []*Queue{third, other} {
		if got := find(t, q, made.ID); !got.Ready || got.FailedClaims != 0 || got.Reason != "" {
			t.Errorf("%+v", got)
		}
	}
}

// A task whose agent has used its budget up is parked with the reason, and the claim does not count as failed. A person
// opens it.
func TestParkingAtExit(t *testing.T) {
	s := memory.New()
	defer s.Close()
	var kinds []task.Kind
	o := testOptions(s)
	o.Also = noteKinds(&kinds)
	q := openWith(t, o)
	defer q.Close()
	made, other := create(t, q, task.Draft{Title: "costly"}), create(t, q, task.Draft{Title: "another"})
	actor := agent("t/a", 1)
	begin(t, q, actor)
	claim(t, q, actor, task.Claiming{ID: made.ID})
	q.End("t/a", 1, task.Exit{Failure: "killed", Park: "budget night: used up"})
	if err := q.ReleaseOrphans(t.Context(), "t/a"); err != nil {
		t.Fatal(err)
	}
	got := find(t, q, made.ID)
	if got.Status != task.Parked || got.Reason != "budget night: used up" || got.FailedClaims != 0 || got.Claim != nil || q.Parked() != 1 {
		t.Errorf("%+v", got)
	}
	if last := kinds[len(kinds)-1]; last != task.Withheld {
		t.Errorf("the last event is %s", last)
	}
	begin(t, q, agent("t/a", 2))
	if got := claim(t, q, agent("t/a", 2), task.Claiming{Any: true}); got.ID != other.ID {
		t.Errorf("claimed %+v", got)
	}
	got, err := retry(t.Context(), q, task.Actor{Name: task.People}, made.ID, "raised")
	if err != nil || got.Status != task.Open {
		t.Errorf("%+v, %v", got, err)
	}
}
