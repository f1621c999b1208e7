package task

import (
	"errors"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// Only people set the mode in which pipelines work at a task. Its subtasks have the same.
func TestMode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	create := func(actor Actor, mode string) func(*Step) error {
		return func(s *Step) error {
			_, _, err := s.Create(actor, Draft{Title: "x", Mode: mode})
			return err
		}
	}
	id := b.add(Draft{Title: "x", Pool: "p", Mode: "evolution"})
	edit := func(actor Actor, mode string) func(*Step) error {
		return func(s *Step) error { return ignored(s.Edit(actor, id, Edit{Mode: &mode})) }
	}
	for name, c := range map[string]struct {
		decide func(*Step) error
		err    error
	}{
		"an agent":          {create(coder, "evolution"), ErrConflict},
		"an agent, by edit": {edit(coder, "maintenance"), ErrConflict},
		"an unknown one":    {create(ann, "evolutoin"), ErrInvalid},
		"unknown, by edit":  {edit(ann, "x"), ErrInvalid},
	} {
		if _, err := b.try(c.decide); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.do(edit(coder, "evolution")) // as it is
	b.attempt(id, outcome.Report{Kind: outcome.Decomposed, Subtasks: subtasks(2), Context: met("other")})
	children := b.Children(b.Record(id), 10)
	for _, child := range children {
		if got := b.task(child).Mode; got != "evolution" {
			t.Errorf("%s: %q", child, got)
		}
	}
	if len(children) != 2 {
		t.Errorf("%v", children)
	}
	b.do(edit(ann, ""))
	if got := b.task(id).Mode; got != "" {
		t.Errorf("%q", got)
	}
}
