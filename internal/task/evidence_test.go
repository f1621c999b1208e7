package task

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// An agent completes a task that has a criterion only with evidence; people close it as before.
func TestCriterion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.add(Draft{Title: "x", DoneWhen: " the tests pass\n"})
	refused := func(what string, decide func(*Step) error, words ...string) {
		t.Helper()
		_, err := b.try(decide)
		for _, word := range words {
			if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v, expected %q", what, err, word)
			}
		}
	}
	finish := func(by Actor, how Outcome) func(*Step) error {
		return func(s *Step) error { return ignored(s.Finish(by, id, Ending{Outcome: how})) }
	}
	refused("unclaimed", finish(coder, Completed), "the tests pass")
	b.claim(id)
	refused("close", finish(coder, Completed), "it is done when: the tests pass; ", "--task "+id+" --evidence TEXT")
	_, err := b.report(id, outcome.Report{Kind: outcome.Completed, Summary: "believe me", Evidence: &outcome.Evidence{}})
	refused("outcome", func(*Step) error { return err }, "--evidence TEXT")
	b.wantStates("in_progress", id)
	edit := func(by Actor, text string) func(*Step) error {
		return func(s *Step) error { return ignored(s.Edit(by, id, Edit{DoneWhen: &text})) }
	}
	refused("another criterion", edit(coder, ""), "only a person")
	s := b.attempt(id, outcome.Report{Kind: outcome.Completed, Evidence: &outcome.Evidence{Text: "see the log"}})
	b.wantStates("completed", id)
	var a Attempt
	for _, w := range s.Writes {
		if w.Part == AttemptPart {
			if err := json.Unmarshal(w.Value, &a); err != nil {
				t.Fatal(err)
			}
		}
	}
	if e := a.Outcome.Evidence; e == nil || e.Text != "see the log" {
		t.Errorf("the attempt: %+v", a)
	}

	id = b.add(Draft{Title: "y"})
	b.do(edit(coder, "it works"))
	b.do(edit(ann, "it works well"))
	if got := b.task(id).DoneWhen; got != "it works well" {
		t.Errorf("%q", got)
	}
	b.do(finish(ann, Completed))
	b.wantStates("completed", id)

	id = b.add(Draft{Title: "z", DoneWhen: "never"})
	b.do(edit(ann, ""))
	b.claim(id)
	b.do(finish(coder, Completed))
	b.wantStates("completed", id)
	id = b.add(Draft{Title: "useless", DoneWhen: "never"})
	b.do(finish(coder, Cancelled))
	if _, err := b.try(func(s *Step) error {
		_, _, err := s.Create(ann, Draft{Title: "x", DoneWhen: strings.Repeat("x", MaxDoneWhen+1)})
		return err
	}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "criterion") {
		t.Error(err)
	}
}

// To divide a task does not avoid its criterion: it can be claimed again when its subtasks are completed.
func TestCriterionOfDivided(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.add(Draft{Title: "x", DoneWhen: "all of it works", Pool: "p"})
	b.claim(id)
	b.attempt(id, outcome.Report{
		Kind: outcome.Decomposed, Context: met(outcome.ArchitecturalGap), Subtasks: subtasks(2),
	})
	for _, kid := range b.Children(b.Record(id), 10) {
		b.close(kid, Completed)
	}
	if got := b.task(id); !got.Ready || got.Decomposed || got.Reason != "its 2 subtasks are completed; it needs evidence" {
		t.Errorf("%+v", got)
	}
	b.claim(id)
	b.attempt(id, outcome.Report{Kind: outcome.Completed, Evidence: &outcome.Evidence{Text: "it does"}})
	b.wantStates("completed", id)
}

// An attempt of an earlier version has no evidence, and one of a later version may have more.
func TestAttemptOfOtherVersions(t *testing.T) {
	t.Parallel()
	for text, expected := range map[string]string{
		`{"number":1,"outcome":{"kind":"completed","summary":"done"}}`:                          "",
		`{"number":1,"outcome":{"kind":"completed","evidence":{"text":"x","video":[1]}},"x":1}`: "x",
	} {
		var a Attempt
		if err := json.Unmarshal([]byte(text), &a); err != nil || strings.Join(a.Outcome.Evidence.Lines(), "") != expected {
			t.Errorf("%+v, %v", a, err)
		}
	}
}
