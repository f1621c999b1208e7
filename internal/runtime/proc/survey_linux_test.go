package proc

import (
	"slices"
	"testing"
)

// What an orphan leaves behind that ends during a search is found by it.
func TestSurvey(t *testing.T) {
	runs, _ := start(t, sh("exec sleep 1000"))
	own, _ := start(t, sh("exec sleep 1000"))
	ended, _ := start(t, sh("exit 0"))
	<-ended.Done()
	r := Reaper{own: map[int]bool{own.PID(): true}}
	lists := 0
	found := r.survey(func() []int {
		if lists++; lists == 1 {
			return []int{own.PID(), ended.PID()}
		}
		return []int{own.PID(), ended.PID(), runs.PID()} // it was left behind
	})
	if len(found) != 1 || found[0].id.PID != runs.PID() {
		t.Errorf("found %v, want process %d", found, runs.PID())
	}
	if lists != 2 {
		t.Errorf("%d lists, want 2: the second one has no new end", lists)
	}
	if again := r.survey(func() []int { return nil }); !slices.Equal(again, nil) {
		t.Errorf("found %v among no children", again)
	}
}
