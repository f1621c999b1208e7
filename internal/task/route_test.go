package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

var (
	coder = Actor{Path: "t/a", Incarnation: 1}
	other = Actor{Path: "t/b", Incarnation: 1}
)

// bench is a State with two running agents.
type bench struct {
	*testing.T
	*State
}

func newBench(t *testing.T) *bench {
	s := newState()
	s.Begin(coder.Path, Life{Incarnation: 1})
	s.Begin(other.Path, Life{Incarnation: 1})
	return &bench{T: t, State: s}
}

// do decides a step, which must be possible.
func (b *bench) do(decide func(*Step) error) *Step {
	b.Helper()
	s, err := b.try(decide)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bench) try(decide func(*Step) error) (*Step, error) {
	s := b.Step()
	err := decide(s)
	if err != nil {
		s.Undo()
	}
	if n := s.Size(); n > MaxStep {
		b.Errorf("a step of %d", n)
	}
	return s, err
}

func (b *bench) add(d Draft) (id string) {
	b.Helper()
	b.do(func(s *Step) error {
		t, _, err := s.Create(ann, d)
		id = t.ID
		return err
	})
	return id
}

func (b *bench) claim(id string) {
	b.Helper()
	b.do(func(s *Step) error { return ignored(s.Claim(coder, Claiming{ID: id})) })
}

func ignored(_ Task, err error) error { return err }

// report ends an attempt of coder.
func (b *bench) report(id string, r outcome.Report) (*Step, error) {
	b.Helper()
	o, err := outcome.New(r)
	if err != nil {
		b.Fatal(err)
	}
	return b.try(func(s *Step) error { return ignored(s.Report(coder, id, o, 0)) })
}

// attempt claims a task and reports an outcome.
func (b *bench) attempt(id string, r outcome.Report) *Step {
	b.Helper()
	b.claim(id)
	s, err := b.report(id, r)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bench) task(id string) Task { return b.Show(b.Record(id)) }

// states returns the states of tasks in short.
func (b *bench) states(ids ...string) string {
	var all []string
	for _, id := range ids {
		t := b.task(id)
		switch {
		case t.Ready:
			all = append(all, "ready")
		case t.Status == Closed:
			all = append(all, string(t.Outcome))
		case t.Status == Open:
			all = append(all, "waits")
		default:
			all = append(all, string(t.Status))
		}
	}
	return strings.Join(all, " ")
}

func (b *bench) wantStates(want string, ids ...string) {
	b.Helper()
	if got := b.states(ids...); got != want {
		b.Errorf("the tasks are: %s, want %s", got, want)
	}
}

func (b *bench) close(id string, how Outcome) {
	b.Helper()
	b.do(func(s *Step) error { return ignored(s.Finish(ann, id, Ending{Outcome: how})) })
	for b.HasDoomed() {
		b.do((*Step).CancelDoomed)
	}
}

func met(kind outcome.ObstacleKind) *outcome.Context {
	return &outcome.Context{
		Approach: "changed the parser", Obstacle: outcome.Obstacle{Kind: kind, Description: "TestLogin fails"},
		Discoveries: []string{"login.go is generated"}, Recommendation: "change the template",
		Explored: outcome.Explored{Files: []string{"login.go"}},
	}
}

func subtasks(n int) (all []outcome.Subtask) {
	for i := range n {
		all = append(all, outcome.Subtask{ID: fmt.Sprint("s", i), Objective: fmt.Sprint("part ", i)})
	}
	return all
}

// Seed 003, sections 2 and 3: each outcome has a consequence of its own, its context becomes a comment on the task, and
// nothing else decides.
func TestRoutes(t *testing.T) {
	in := time.Now().Add(time.Hour).UTC().Round(0)
	for _, tt := range []struct {
		name   string
		report outcome.Report
		state  string
		event  Kind
		failed int
		asks   string // what people are asked
	}{
		{"Completed: mark done", outcome.Report{Kind: outcome.Completed, Summary: "all tests pass"}, "completed", Ended,
			0, ""},
		{"Deferred: back in the queue with context", outcome.Report{Kind: outcome.Deferred, NotBefore: &in,
			Context: met("other")},
			"deferred", Released, 0, ""},
		{"Deferred, at once", outcome.Report{Kind: outcome.Deferred, NotBefore: new(time.Time), Context: met("other")},
			"ready", Released, 0, ""},
		{"Decomposed: the parent waits", outcome.Report{Kind: outcome.Decomposed, Subtasks: subtasks(2),
			Context: met("other")},
			"waits", Divided, 0, ""},
		{"Blocked: parked until a person has done it", outcome.Report{Kind: outcome.Blocked, Context: met("other"),
			Condition: &outcome.Condition{Kind: outcome.PersonHas,
				What: "the key is in the vault"}}, "blocked", HeldUp, 0, "the key is in the vault"},
		{"Blocked until a service works", outcome.Report{Kind: outcome.Blocked, Context: met("other"),
			Condition: &outcome.Condition{Kind: outcome.ServiceUp,
				What: "the registry"}}, "blocked", HeldUp, 0, "Does this work again: the registry?"},
		{"Blocked until a time", outcome.Report{Kind: outcome.Blocked, Context: met("other"),
			Condition: &outcome.Condition{Kind: outcome.TimeComes,
				What: in.Format(time.RFC3339)}}, "deferred", HeldUp, 0, ""},
		{"Retryable: again, with the context of the failure", outcome.Report{Kind: outcome.Retryable,
			Context: met(outcome.VerificationFailed)},
			"ready", Released, 1, ""},
		{"Retryable, because of a server", outcome.Report{Kind: outcome.Retryable, Context: met(outcome.Overloaded)},
			"ready", Released, 0, ""},
		{"Retryable, not before", outcome.Report{Kind: outcome.Retryable, NotBefore: &in,
			Context: met(outcome.Timeout)},
			"deferred", Released, 1, ""},
		{"Escalated: a person decides", outcome.Report{Kind: outcome.Escalated, Context: met(outcome.GuardDenied),
			Question: "May I?"},
			"parked", Escalated, 0, "May I?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			id := b.add(Draft{Title: "x"})
			s := b.attempt(id, tt.report)
			b.wantStates(tt.state, id)
			got := b.task(id)
			if got.FailedClaims != tt.failed || got.Claim != nil || got.Claims != 1 {
				t.Errorf("%+v", got)
			}
			asks := ""
			if got.Question != nil {
				asks = got.Question.Text
			}
			if asked := len(b.Questions()) == 1; asks != tt.asks || asked != (tt.asks != "") {
				t.Errorf("people are asked %q, want %q", asks, tt.asks)
			}
			last := s.Events[len(s.Events)-1]
			if last.Kind != tt.event || last.Attempt == nil || last.Attempt.Number != 1 ||
				last.Attempt.Outcome.Kind != tt.report.Kind ||
				last.Attempt.By != coder.Path || last.Attempt.ReportedBy != coder.Path ||
				last.Attempt.Incarnation != 1 {
				t.Errorf("%+v", last)
			}
			// The attempt and the comment about it are part of the same step.
			parts := map[Part]string{}
			for _, w := range s.Writes {
				if w.ID == id {
					parts[w.Part] += string(w.Value)
				}
			}
			if !strings.Contains(parts[AttemptPart], `"number":1`) {
				t.Errorf("the attempt is not written: %v", parts)
			}
			for _, part := range []string{"changed the parser", "TestLogin fails", "login.go is generated",
				"change the template"} {
				if strings.Contains(parts[CommentPart], part) != (tt.report.Context != nil) {
					t.Errorf("the comment is %s", parts[CommentPart])
				}
			}
		})
	}
	// There is a row for each kind.
	for _, kind := range outcome.Kinds() {
		if kind != outcome.Retryable && routeOf(kind) == routeOf(outcome.Retryable) {
			t.Errorf("%s is treated as retryable", kind)
		}
	}
}

// Only the claimant reports, and only once.
func TestReportRefused(t *testing.T) {
	b := newBench(t)
	id := b.add(Draft{Title: "x"})
	done, _ := outcome.New(outcome.Report{Kind: outcome.Completed})
	if _, err := b.report(id, done.Report()); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(),
		"was not claimed by t/a") {
		t.Errorf("without a claim: %v", err)
	}
	b.claim(id)
	if _, err := b.try(func(s *Step) error { return ignored(s.Report(other, id, done, 0)) }); !errors.Is(err,
		ErrConflict) {
		t.Errorf("by another agent: %v", err)
	}
	old := Actor{Path: coder.Path, Incarnation: 7}
	if _, err := b.try(func(s *Step) error { return ignored(s.Report(old, id, done, 0)) }); !errors.Is(err, ErrStale) {
		t.Errorf("by another incarnation: %v", err)
	}
	if _, err := b.report(id, done.Report()); err != nil {
		t.Error(err)
	}
	if _, err := b.report(id, done.Report()); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(),
		"is closed") {
		t.Errorf("again: %v", err)
	}
	for _, status := range []Status{Open, Deferred, Blocked} {
		id := b.add(Draft{Title: "y"})
		b.claim(id)
		_, err := b.try(func(s *Step) error { return ignored(s.Edit(coder, id, Edit{Status: &status})) })
		if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "coppice agent outcome") {
			t.Errorf("an attempt ends as %s without a context: %v", status, err)
		}
		_, err = b.try(func(s *Step) error { return ignored(s.Finish(coder, id, Ending{Outcome: Cancelled})) })
		if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "coppice agent outcome escalated") {
			t.Errorf("an attempt is cancelled by its agent: %v", err)
		}
	}
	id = b.add(Draft{Title: "z"})
	if _, err := b.try(func(s *Step) error {
		return ignored(s.Finish(ann, id,
			Ending{Outcome: "failed"}))
	}); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "coppice agent outcome") {
		t.Errorf("failed is an outcome: %v", err)
	}
}

// A prerequisite that is not done becomes a dependency. So does the task of a condition.
func TestPrerequisite(t *testing.T) {
	for name, report := range map[string]outcome.Report{
		"deferred": {Kind: outcome.Deferred, Context: &outcome.Context{Approach: "x", Obstacle: outcome.Obstacle{
			Kind: outcome.MissingPrerequisite, TaskID: "NEEDED", Reason: "no schema"}}},
		"blocked": {Kind: outcome.Blocked, Context: met("other"),
			Condition: &outcome.Condition{Kind: outcome.TaskDone, What: "NEEDED"}},
	} {
		t.Run(name, func(t *testing.T) {
			named := func(id string) outcome.Report {
				r := report
				if r.Condition != nil {
					r.Condition = &outcome.Condition{Kind: outcome.TaskDone, What: id}
				} else {
					c := *r.Context
					c.Obstacle.TaskID, r.Context = id, &c
				}
				return r
			}
			b := newBench(t)
			needed, id := b.add(Draft{Title: "schema"}), b.add(Draft{Title: "client"})
			b.claim(id)
			for bad, want := range map[string]error{"web-zzz": ErrNotFound, id: ErrInvalid, "T 12": ErrNotFound} {
				if _, err := b.report(id, named(bad)); !errors.Is(err, want) {
					t.Errorf("%s: %v", bad, err)
				}
			}
			if _, err := b.report(id, named(needed)); err != nil {
				t.Fatal(err)
			}
			b.wantStates("ready waits", needed, id)
			if got := b.task(id); !slices.Equal(got.WaitsFor, []string{needed}) {
				t.Errorf("it waits for %v", got.WaitsFor)
			}
			b.claim(needed) // the other one cannot wait for it in turn
			if _, err := b.report(needed, named(id)); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(),
				"cycle") {
				t.Errorf("a cycle: %v", err)
			}
			b.close(needed, Completed)
			b.wantStates("ready", id)
		})
	}
}

// Seed 003, section 2: dependents go on after completed only. What else becomes of them is stated on them.
func TestDependents(t *testing.T) {
	b := newBench(t)
	first := b.add(Draft{Title: "first"})
	of := func(rule DependencyRule, on string) string {
		return b.add(Draft{Title: "x", DependsOn: []string{on}, IfDependencyFails: rule})
	}
	unset, wait, with, without := of("", first), of(WaitForIt, first), of(CancelWithIt, first), of(GoOnWithout, first)
	after, afterThat := of(CancelWithIt, with), of("", with)
	all := []string{unset, wait, with, without, after, afterThat}
	b.wantStates("waits waits waits waits waits waits", all...)
	b.close(first, Cancelled)
	b.wantStates("waits waits cancelled ready cancelled waits", all...)
	if got := b.task(unset); !slices.Equal(got.WaitsFor, []string{first}) || !slices.Equal(got.Stuck, []string{first}) {
		t.Errorf("%+v", got)
	}
	if got := b.task(with); got.Reason != "it depends on what was not completed: "+first || got.ClosedBy != controller {
		t.Errorf("%+v", got)
	}
	cont := GoOnWithout
	b.do(func(s *Step) error { return ignored(s.Edit(ann, wait, Edit{IfDependencyFails: &cont})) })
	b.wantStates("ready", wait)
	b.do(func(s *Step) error { return ignored(s.Reopen(ann, first, "")) })
	b.wantStates("waits waits cancelled waits", unset, wait, with, without)
	b.close(first, Completed)
	b.wantStates("ready ready cancelled ready", unset, wait, with, without)
	if _, err := b.try(func(s *Step) error {
		return ignored(s.Edit(ann, wait, Edit{IfDependencyFails: new(DependencyRule("retry"))}))
	}); !errors.Is(err, ErrInvalid) {
		t.Errorf("an unknown rule: %v", err)
	}
	// What an earlier version has closed as failed was not completed.
	failed := b.add(Draft{Title: "of an earlier version"})
	late := of("", failed)
	r := *b.Record(failed)
	r.Status, r.Outcome = Closed, "failed"
	b.do(func(s *Step) error { s.set(r.ID, &r); return nil })
	b.wantStates("failed waits", failed, late)
	b.do(func(s *Step) error { return ignored(s.Comment(ann, failed, "kept", "")) })
}

// Seed 003, section 2: a decomposed task injects its subtasks, waits, and is done with them.
func TestDecomposed(t *testing.T) {
	b := newBench(t)
	p := 1
	id := b.add(Draft{Title: "large", Pool: "p", Priority: &p, Labels: []string{"l"}, Type: "feature"})
	next := b.add(Draft{Title: "next", DependsOn: []string{id}})
	b.attempt(id, outcome.Report{Kind: outcome.Decomposed, Context: met("other"), Subtasks: []outcome.Subtask{
		{ID: "b", Objective: "the parser\nin detail", DependsOn: []string{"A"}, DefinitionOfDone: "make test"},
		{ID: "a", Objective: "the lexer"},
	}})
	kids := b.Children(b.Record(id), 10)
	if len(kids) != 2 {
		t.Fatalf("%v", kids)
	}
	parser, lexer := kids[0], kids[1]
	b.wantStates("waits waits waits ready", id, next, parser, lexer)
	if got := b.task(parser); got.Title != "the parser" || got.Pool != "p" || got.Priority != 1 ||
		got.Type != "feature" ||
		!slices.Equal(got.Labels, []string{"l"}) || got.Parent != id || !slices.Equal(got.DependsOn, []string{lexer}) ||
		got.Origin != "decomposed:"+id {
		t.Errorf("%+v", got)
	}
	if _, err := b.try(func(s *Step) error { return ignored(s.Claim(coder, Claiming{ID: id})) }); !errors.Is(err,
		ErrConflict) {
		t.Errorf("the parent is claimed: %v", err)
	}
	b.attempt(lexer, outcome.Report{Kind: outcome.Completed})
	b.wantStates("waits ready", id, parser)
	// A subtask may be divided, too.
	b.attempt(parser, outcome.Report{Kind: outcome.Decomposed, Context: met("other"), Subtasks: subtasks(1)})
	leaf := b.Children(b.Record(parser), 10)[0]
	b.wantStates("waits waits ready", id, parser, leaf)
	b.attempt(leaf, outcome.Report{Kind: outcome.Completed})
	b.wantStates("completed completed completed ready", leaf, parser, id, next)
	if got := b.task(id); got.Reason != "its 2 subtasks are completed" || got.ClosedBy != controller {
		t.Errorf("%+v", got)
	}
}

func (b *bench) divided(n int) (id string, kids []string) {
	b.Helper()
	id = b.add(Draft{Title: "large"})
	b.attempt(id, outcome.Report{Kind: outcome.Decomposed, Context: met("other"), Subtasks: subtasks(n)})
	return id, b.Children(b.Record(id), n)
}

// If a subtask is cancelled, a person is asked what becomes of the whole.
func TestSubtaskCancelled(t *testing.T) {
	b := newBench(t)
	id, kids := b.divided(2)
	b.close(kids[0], Cancelled)
	b.wantStates("waits", id)
	b.close(kids[1], Completed)
	b.wantStates("parked", id)
	if got := b.task(id); got.Question == nil || !strings.Contains(got.Question.Text,
		"1 of its 2 subtasks are not completed: "+kids[0]) {
		t.Errorf("%+v", got)
	}
	b.do(func(s *Step) error { return ignored(s.Answer(ann, id, "do the rest yourself")) })
	b.wantStates("ready", id)
	b.attempt(id, outcome.Report{Kind: outcome.Completed})
	b.wantStates("completed", id)
}

// Depth, number of subtasks and their total are bounded.
func TestDecompositionBounds(t *testing.T) {
	b := newBench(t)
	id, kids := b.divided(MaxSubtasks)
	b.claim(kids[0])
	refuse := func(id string, n int, want string) {
		t.Helper()
		_, err := b.report(id, outcome.Report{Kind: outcome.Decomposed, Context: met("other"), Subtasks: subtasks(n)})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if got := b.task(id); got.Claim == nil || got.Decomposed {
			t.Errorf("%+v", got)
		}
	}
	refuse(kids[0], MaxSubtasks+1, "there are 21 subtasks, at most 20")
	at := kids[0]
	for range MaxDepth - 1 {
		if _, err := b.report(at, outcome.Report{Kind: outcome.Decomposed, Context: met("other"),
			Subtasks: subtasks(1)}); err != nil {
			t.Fatal(err)
		}
		at = b.Children(b.Record(at), 1)[0]
		b.claim(at)
	}
	refuse(at, 1, "3 decompositions below "+id)
	for i := 1; ; i++ {
		b.claim(kids[i])
		if b.index.below(id, 0)+MaxSubtasks > MaxScope {
			refuse(kids[i], MaxSubtasks, fmt.Sprintf("%s has %d tasks below it, and may have %d", id,
				b.index.below(id, 0), MaxScope))
			break
		}
		if _, err := b.report(kids[i], outcome.Report{Kind: outcome.Decomposed, Context: met("other"),
			Subtasks: subtasks(MaxSubtasks)}); err != nil {
			t.Fatal(err)
		}
	}
}

// Seed 003, section 2: an escalated task stops its scope, which is the decomposition that it is part of, and nothing
// else.
func TestEscalatedScope(t *testing.T) {
	for name, act := range map[string]func(*Step, string) error{
		"answered":  func(s *Step, id string) error { return ignored(s.Answer(ann, id, "go on")) },
		"rejected":  func(s *Step, id string) error { return ignored(s.Reject(ann, id, "no")) },
		"retried":   func(s *Step, id string) error { return ignored(s.Retry(ann, id, "")) },
		"closed":    func(s *Step, id string) error { return ignored(s.Finish(ann, id, Ending{})) },
		"edited":    func(s *Step, id string) error { return ignored(s.Edit(ann, id, Edit{Status: new(Deferred)})) },
		"moved out": func(s *Step, id string) error { return ignored(s.Edit(ann, id, Edit{Parent: new("")})) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			id, kids := b.divided(4)
			free := b.add(Draft{Title: "another"})
			b.attempt(kids[3], outcome.Report{Kind: outcome.Decomposed, Context: met("other"), Subtasks: subtasks(2)})
			below := b.Children(b.Record(kids[3]), 2)
			b.claim(kids[1]) // it goes on
			asking := outcome.Report{Kind: outcome.Escalated, Context: met(outcome.GuardDenied), Question: "May I?"}
			b.attempt(below[0], asking)
			b.wantStates("parked waits waits in_progress waits ready", below[0], below[1], kids[0], kids[1], kids[2],
				free)
			if got := b.task(kids[0]); !slices.Equal(got.WaitsFor, []string{below[0]}) {
				t.Errorf("%+v", got)
			}
			// Loading the tasks in any order gives the same.
			fresh := NewIndex()
			for _, r := range b.Following("", 100) {
				fresh.Add(r)
			}
			for _, at := range []string{below[1], kids[0], kids[2]} {
				if fresh.entries[at].ready(fresh) {
					t.Errorf("%s is ready after loading", at)
				}
			}
			if n := len(b.Questions()); n != 1 {
				t.Errorf("%d questions", n)
			}
			b.do(func(s *Step) error { return act(s, below[0]) })
			b.wantStates("ready ready ready", below[1], kids[0], kids[2])
			if got := b.task(id); len(got.StoppedBy) > 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// An agent cannot answer in the place of a person.
func TestAnswerRefused(t *testing.T) {
	b := newBench(t)
	id := b.add(Draft{Title: "x"})
	if _, err := b.try(func(s *Step) error { return ignored(s.Answer(ann, id, "yes")) }); !errors.Is(err,
		ErrConflict) || !strings.Contains(err.Error(), "nothing is asked") {
		t.Errorf("nothing is asked: %v", err)
	}
	b.attempt(id, outcome.Report{Kind: outcome.Escalated, Context: met(outcome.GuardDenied), Question: "May I?"})
	for name, act := range map[string]func(*Step) error{
		"answer": func(s *Step) error { return ignored(s.Answer(coder, id, "yes")) },
		"reject": func(s *Step) error { return ignored(s.Reject(coder, id, "")) },
		"retry":  func(s *Step) error { return ignored(s.Retry(coder, id, "")) },
		"open":   func(s *Step) error { return ignored(s.Edit(coder, id, Edit{Status: new(Open)})) },
	} {
		if _, err := b.try(act); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := b.do(func(s *Step) error { return ignored(s.Answer(ann, id, "yes, but keep the old API")) })
	if got := b.task(id); !got.Ready || got.Question != nil || len(s.Writes) != 1 ||
		!strings.Contains(string(s.Writes[0].Value), "keep the old API") {
		t.Errorf("%+v, %+v", got, s.Writes)
	}
}

// Seed 003, phase 2: the pause before the next attempt grows and is random over its whole range.
func TestPause(t *testing.T) {
	for n, most := range map[int]time.Duration{0: 2 * time.Second, 1: 2 * time.Second, 2: 4 * time.Second,
		5:  32 * time.Second,
		11: 2048 * time.Second, 12: time.Hour, 1000: time.Hour} {
		low, high := most, time.Duration(0)
		for range 2000 {
			p := Pause(n)
			low, high = min(low, p), max(high, p)
		}
		if low < 0 || high >= most || low > most/20 || high < most*19/20 {
			t.Errorf("pause %d is %v to %v, want 0 to %v", n, low, high, most)
		}
	}
	b := newBench(t)
	var asked []int
	b.config.Pause = func(n int) time.Duration {
		asked = append(asked, n)
		return time.Duration(n) * time.Minute
	}
	id := b.add(Draft{Title: "x", MaxClaims: 10})
	retry := func(r outcome.Report) time.Duration {
		b.Advance(time.Now().Add(time.Hour))
		b.attempt(id, r)
		return time.Until(b.task(id).NotBefore).Round(time.Minute)
	}
	soon := time.Now()
	for i, got := range []time.Duration{
		retry(outcome.Report{Kind: outcome.Retryable, Context: met(outcome.Timeout)}),
		retry(outcome.Report{Kind: outcome.Deferred, NotBefore: &soon,
			Context: met("other")}), // it cannot loop without a pause
		retry(outcome.Report{Kind: outcome.Blocked, Context: met("other"),
			Condition: &outcome.Condition{Kind: outcome.TimeComes, What: "2020-01-01T00:00:00Z"}}),
		retry(outcome.Report{Kind: outcome.Retryable, Context: met(outcome.Overloaded)}),
	} {
		if want := time.Duration(i+1) * time.Minute; got != want {
			t.Errorf("pause %v, want %v", got, want)
		}
	}
	b.do(func(s *Step) error { return ignored(s.Retry(ann, id, "")) })
	if got := retry(outcome.Report{Kind: outcome.Retryable, Context: met(outcome.Timeout)}); got != time.Minute {
		t.Errorf("after a person has opened it: %v, %v", got, asked)
	}
}

// If an agent dies without a word, the attempt still has an outcome with a context, from what is known of its end.
func TestSilentEnd(t *testing.T) {
	for _, tt := range []struct {
		name     string
		exit     Exit
		kind     outcome.Kind
		obstacle outcome.ObstacleKind
		text     string
	}{
		{"a crash", Exit{Failure: "exit code 3", Output: []string{"panic: nil map", "goroutine 1"}}, outcome.Retryable,
			outcome.Crash, "exit code 3"},
		{"a refusal", Exit{Failure: "refused: no", Obstacle: outcome.Refused}, outcome.Retryable, outcome.Refused,
			"refused: no"},
		{"a used-up plan", Exit{Cause: "usage limit until 15:00", Obstacle: outcome.UsageLimit}, outcome.Deferred,
			outcome.UsageLimit, "usage limit until 15:00"},
		{"a stop", Exit{Cause: "shutdown"}, outcome.Deferred, outcome.OtherObstacle, "shutdown"},
		{"not known", Exit{}, outcome.Deferred, outcome.OtherObstacle, "incarnation 1 of t/a is over"},
		{"a budget", Exit{Failure: "killed", Park: "budget night: used up"}, outcome.Escalated, outcome.Budget,
			"budget night: used up"},
		{"hostile output", Exit{Failure: "bad \xff", Output: []string{"\xfe\x1b[31m", strings.Repeat("x", 100_000)}},
			outcome.Retryable, outcome.Crash, "bad \uFFFD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			id := b.add(Draft{Title: "x"})
			b.claim(id)
			b.End(coder.Path, 1, tt.exit)
			s := b.do(func(s *Step) error { return s.ReleaseOrphans(coder.Path, 10) })
			a := s.Events[0].Attempt
			if a == nil || a.ReportedBy != controller || a.By != coder.Path || a.Outcome.Kind != tt.kind {
				t.Fatalf("%+v", a)
			}
			c := a.Outcome.Context
			if c.Obstacle.Kind != tt.obstacle || c.Obstacle.Description != tt.text || !strings.HasPrefix(c.Approach,
				unreported) {
				t.Errorf("%+v", c)
			}
			if len(tt.exit.Output) > 0 && tt.name == "a crash" && !strings.Contains(c.Explored.Notes,
				"panic: nil map\n  goroutine 1") {
				t.Errorf("%q", c.Explored.Notes)
			}
			if _, err := outcome.New(a.Outcome); err != nil {
				t.Error(err)
			}
		})
	}
}

// The attempts that are kept are bounded, and removed with the task.
func TestAttemptsBounded(t *testing.T) {
	b := newBench(t)
	id := b.add(Draft{Title: "x", MaxClaims: 1000, Ephemeral: true})
	kept := map[int]bool{}
	keep := func(s *Step) {
		for _, w := range s.Writes {
			if w.Part == AttemptPart && w.Value == nil {
				delete(kept, w.N)
			} else if w.Part == AttemptPart {
				kept[w.N] = true
			}
		}
	}
	for range MaxAttempts + 50 {
		keep(b.attempt(id, outcome.Report{Kind: outcome.Retryable, Context: met(outcome.Timeout)}))
	}
	if len(kept) != MaxAttempts || !kept[51] || !kept[MaxAttempts+50] {
		t.Errorf("%d are kept", len(kept))
	}
	b.close(id, Completed)
	for rest := []string{id}; len(rest) > 0; {
		keep(b.do(func(s *Step) error { rest = s.Purge(rest, time.Now().Add(time.Hour)); return nil }))
	}
	if len(kept) > 0 || b.Record(id) != nil {
		t.Errorf("%d attempts stay", len(kept))
	}
}
