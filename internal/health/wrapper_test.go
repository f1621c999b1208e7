package health

import (
	"testing"
	"time"
)

func TestWrapperProbe(t *testing.T) {
	type update struct {
		runs bool
		at   time.Duration
		gone bool
	}
	for name, updates := range map[string][]update{
		"it dies": {{true, 0, false}, {false, 1, false}, {false, 2, true}},
		"another takes its turn": {{true, 0, false}, {false, 1, false}, {true, 2, false}, {false, 3, false},
			{false, 4, true}},
		"it has yet to come": {{false, 0, false}, {false, time.Second, false}, {false, 20 * time.Second, false},
			{true, 21 * time.Second, false}},
		"it never comes": {{false, 0, false}, {false, 30 * time.Second, false}, {false, 31 * time.Second, true}},
	} {
		var p wrapperProbe
		for i, u := range updates {
			if got := p.update(u.runs, u.at); got != u.gone {
				t.Errorf("%s: update %d says gone: %v", name, i, got)
			}
		}
	}
}
