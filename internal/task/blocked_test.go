package task

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// blocked returns the outcome blocked with a condition.
func blocked(kind outcome.ConditionKind, what string) outcome.Report {
	return outcome.Report{
		Kind: outcome.Blocked, Context: met("other"), Condition: &outcome.Condition{Kind: kind, What: what},
	}
}

// A task that a command or an event opens asks nobody, and is opened once, with what was there as a comment.
func TestUnblock(t *testing.T) {
	for _, c := range []outcome.Condition{
		{Kind: outcome.ServiceUp, What: "checked"}, {Kind: outcome.EventOccurs, What: "task.closed"},
	} {
		t.Run(string(c.Kind), func(t *testing.T) {
			b := newBench(t)
			b.config.Pause = func(n int) time.Duration { return time.Duration(n) * time.Hour }
			id := b.add(Draft{Title: "x"})
			b.attempt(id, blocked(c.Kind, c.What))
			waits := b.Waits()
			got := b.task(id)
			if len(waits) != 1 || waits[0].ID != id || waits[0].Condition != c || waits[0].Asked ||
				!waits[0].Since.Equal(got.BlockedAt) || got.BlockedAt.IsZero() || got.Question != nil {
				t.Fatalf("%+v, %+v", waits, got)
			}
			stale := waits[0]
			stale.Since = stale.Since.Add(-1)
			if s := b.do(func(s *Step) error { return s.Unblock(stale, "it holds") }); s.Size() > 0 {
				t.Error("a task is opened by what it has waited for before")
			}
			s := b.do(func(s *Step) error { return s.Unblock(waits[0], "it holds") })
			if e := s.Events[0]; e.Kind != Released || !e.Waits || e.Note != "it holds" {
				t.Errorf("%+v", e)
			}
			got = b.task(id)
			in := time.Until(got.NotBefore)
			if got.effective(now()) != Deferred || in > time.Hour || in < 59*time.Minute {
				t.Errorf("%s, not before %v: the pause after an attempt without a result is missing", got.Status,
					got.NotBefore)
			}
			if got.Condition != nil || !got.BlockedAt.IsZero() || got.Reason != "it holds" || got.Comments != 2 ||
				b.Record(id).LastEvent != 0 || len(b.Waits()) > 0 {
				t.Errorf("%+v", got)
			}
			if s := b.do(func(s *Step) error { return s.Unblock(waits[0], "it holds") }); s.Size() > 0 {
				t.Error("a task is opened twice")
			}
		})
	}
}

func TestAskAbout(t *testing.T) {
	b := newBench(t)
	id := b.add(Draft{Title: "x"})
	b.attempt(id, blocked(outcome.ServiceUp, "checked"))
	w := b.Waits()[0]
	ask := func() *Step { return b.do(func(s *Step) error { return s.AskAbout(w, "Does it go on?") }) }
	if e := ask().Events[0]; e.Kind != Escalated || !e.Asks || e.Task.Status != Blocked {
		t.Errorf("%+v", e)
	}
	if ask().Size() > 0 {
		t.Error("a person is asked twice")
	}
	if all := b.Waits(); len(all) != 1 || !all[0].Asked || len(b.Questions()) != 1 {
		t.Errorf("%+v", all)
	}
	b.do(func(s *Step) error { return s.Unblock(w, "it holds") })
	if b.wantStates("ready", id); len(b.Questions()) > 0 {
		t.Error("a person is asked about a task that is open")
	}
	b.attempt(id, blocked(outcome.EventOccurs, "task.closed"))
	w = b.Waits()[0]
	ask()
	b.do(func(s *Step) error { return ignored(s.Answer(ann, id, "go on")) })
	b.wantStates("ready", id)
}

// Events count from the moment of the report that names one.
func TestReportOfAnEvent(t *testing.T) {
	b := newBench(t)
	reported := b.add(Draft{Title: "z"})
	b.claim(reported)
	o := newOutcome(blocked(outcome.EventOccurs, "task.closed"))
	b.do(func(s *Step) error { return ignored(s.Report(coder, reported, o, 9)) })
	if got := b.Record(reported).LastEvent; got != 9 {
		t.Errorf("events after %d count for a condition that an outcome names", got)
	}
}

func TestBlock(t *testing.T) {
	b := newBench(t)
	command := outcome.Condition{Kind: outcome.CommandSucceeds, What: "test -e ready"}
	id := b.add(Draft{Title: "x"})
	block := func(actor Actor, id string, c outcome.Condition) error {
		_, err := b.try(func(s *Step) error { return ignored(s.Block(actor, id, c, "the machine is away", 7)) })
		return err
	}
	err := block(coder, id, command)
	if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "only a person") {
		t.Errorf("an agent sets a command: %v", err)
	}
	for _, bad := range []outcome.Condition{
		{}, {Kind: "moon", What: "x"}, {Kind: outcome.CommandSucceeds}, {Kind: outcome.EventOccurs, What: "task.close"},
	} {
		if err := block(ann, id, bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	b.claim(id)
	if err := block(ann, id, command); err != nil {
		t.Fatal(err)
	}
	if got := b.task(id); got.Status != Blocked || got.Claim != nil || *got.Condition != command ||
		got.Reason != "the machine is away" {
		t.Errorf("%+v", got)
	}
	if err := block(ann, id, outcome.Condition{Kind: outcome.EventOccurs, What: "task.closed"}); err != nil {
		t.Fatal(err)
	}
	if all := b.Waits(); len(all) != 1 || all[0].LastEvent != 7 {
		t.Errorf("%+v", all)
	}
	other := b.add(Draft{Title: "y"})
	if err := block(ann, id, outcome.Condition{Kind: outcome.TaskDone, What: other}); err != nil {
		t.Fatal(err)
	}
	if b.wantStates("waits", id); len(b.Waits()) > 0 {
		t.Errorf("%+v", b.Waits())
	}
	b.close(id, Cancelled)
	if err := block(ann, id, command); !errors.Is(err, ErrConflict) {
		t.Errorf("a closed task is blocked: %v", err)
	}
}

// A task that is blocked is open or closed by a person as before, and then waits for nothing.
func TestBlockedByHand(t *testing.T) {
	for name, do := range map[string]func(s *Step, id string) (Task, error){
		"close": func(s *Step, id string) (Task, error) { return s.Finish(ann, id, Ending{Outcome: Cancelled}) },
		"retry": func(s *Step, id string) (Task, error) { return s.Retry(ann, id, "") },
		"edit":  func(s *Step, id string) (Task, error) { return s.Edit(ann, id, Edit{Status: new(Open)}) },
		"defer": func(s *Step, id string) (Task, error) { return s.Edit(ann, id, Edit{Status: new(Deferred)}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			id := b.add(Draft{Title: "x"})
			b.attempt(id, blocked(outcome.ServiceUp, "checked"))
			w := b.Waits()[0]
			b.do(func(s *Step) error { return ignored(do(s, id)) })
			before := b.Record(id)
			b.do(func(s *Step) error { return s.Unblock(w, "it holds") })
			if len(b.Waits()) > 0 || before.Condition != nil || !before.BlockedAt.IsZero() || b.Record(id) != before {
				t.Errorf("%+v", b.Record(id))
			}
		})
	}
}
