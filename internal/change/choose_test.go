package change

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/change/pattern"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	docs, err := pattern.NewList("docs", "*.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := []KindRule{
		{Kind: Maintenance, Labels: []string{"typo", "lint"}},
		{Kind: Evolution, Labels: []string{"core"}, Priorities: []int{0, 1}},
		{Kind: Maintenance, Paths: &docs},
	}
	for name, tt := range map[string]struct {
		fallback Kind
		task     TaskFacts
		kind     Kind
		why      string
	}{
		"default": {Maintenance, TaskFacts{}, Maintenance, "no rule matches: the default"},
		"label": {Evolution, TaskFacts{Labels: []string{"x", "lint"}}, Maintenance,
			"rule 1 matches (label lint)"},
		"first rule": {Evolution, TaskFacts{Labels: []string{"core", "lint"}}, Maintenance,
			"rule 1 matches (label lint)"},
		"all conditions": {Maintenance, TaskFacts{Labels: []string{"core"}, Priority: 1}, Evolution,
			"rule 2 matches (label core, priority 1)"},
		"one condition": {Maintenance, TaskFacts{Labels: []string{"core"}, Priority: 2}, Maintenance,
			"no rule matches: the default"},
		"paths": {Evolution, TaskFacts{Paths: []string{"docs/a", "./README.md"}}, Maintenance,
			"rule 3 matches (paths)"},
		"not all paths": {Evolution, TaskFacts{Paths: []string{"docs/a", "main.go"}}, Evolution,
			"no rule matches: the default"},
		"no paths": {Evolution, TaskFacts{}, Evolution, "no rule matches: the default"},
		"asks for stricter": {Evolution, TaskFacts{Explicit: Maintenance}, Maintenance,
			"the task asks for it, which is stricter than evolution"},
		"asks for wider": {Maintenance, TaskFacts{Explicit: Evolution}, Maintenance,
			"no rule matches: the default; the task asks for evolution, which only a person may set"},
		"the same": {Evolution, TaskFacts{Explicit: Evolution}, Evolution, "no rule matches: the default"},
		"a person": {Maintenance, TaskFacts{Labels: []string{"lint"}, Explicit: Evolution, ByPerson: true},
			Evolution, "a person has set it on the task"},
		"nothing set": {Evolution, TaskFacts{ByPerson: true}, Evolution, "no rule matches: the default"},
	} {
		if kind, why := Choose(rules, tt.fallback, tt.task); kind != tt.kind || why != tt.why {
			t.Errorf("%s: %s, %q; want %s, %q", name, kind, why, tt.kind, tt.why)
		}
	}
	if kind, why := Choose([]KindRule{{Kind: Evolution}}, Maintenance, TaskFacts{}); kind != Evolution ||
		why != "rule 1 matches (every task)" {
		t.Errorf("without conditions: %s, %q", kind, why)
	}
}
