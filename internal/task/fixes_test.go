package task

import (
	"errors"
	"strings"
	"testing"
)

// Only people name the check that proves a fix.
func TestFixes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.add(Draft{Title: "x", Fixes: " go test -run TestX\n"})
	if got := b.task(id).Fixes; got != "go test -run TestX" {
		t.Errorf("%q", got)
	}
	edit := func(by Actor, text string) func(*Step) error {
		return func(s *Step) error { return ignored(s.Edit(by, id, Edit{Fixes: &text})) }
	}
	create := func(by Actor, text string) func(*Step) error {
		return func(s *Step) error {
			_, _, err := s.Create(by, Draft{Title: "y", Fixes: text})
			return err
		}
	}
	for name, c := range map[string]struct {
		decide func(*Step) error
		err    error
	}{
		"an agent removes it":  {edit(coder, ""), ErrConflict},
		"an agent changes it":  {edit(coder, "true"), ErrConflict},
		"an agent names one":   {create(coder, "true"), ErrConflict},
		"a pipe":               {create(ann, "a | b"), ErrInvalid},
		"lines":                {create(ann, "a\nb"), ErrInvalid},
		"too long":             {create(ann, strings.Repeat("x", MaxFixes+1)), ErrInvalid},
		"a quotation, by edit": {edit(ann, "a 'b"), ErrInvalid},
	} {
		if _, err := b.try(c.decide); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.do(edit(coder, "go test -run TestX")) // as it is
	b.do(edit(ann, "make check"))
	if got := b.task(id).Fixes; got != "make check" {
		t.Errorf("%q", got)
	}
	b.do(edit(ann, ""))
	if got := b.task(id).Fixes; got != "" {
		t.Errorf("%q", got)
	}
}
