package task

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// The numbers of a pool count what its agents could claim, also while it is paused, and what waits for a person, each
// task once.
func TestPoolTasks(t *testing.T) {
	b, ids := newPoolBench(t, 6)
	b.add(Draft{Title: "elsewhere", Pool: "q"})
	b.add(Draft{Title: "later", Pool: "p", Status: Blocked})
	want := func(state pools.State, ready, inProgress, forPerson int) {
		t.Helper()
		got := b.PoolTasks("p")
		if got.Pool.Name != "p" || got.Pool.State != state || got.Ready != ready || got.InProgress != inProgress ||
			got.ForPerson != forPerson {
			t.Errorf("%+v, want %s %d %d %d", got, state, ready, inProgress, forPerson)
		}
	}
	want(pools.Open, 6, 0, 0)
	b.claim(ids[0])
	want(pools.Open, 5, 1, 0)
	b.attempt(ids[1], outcome.Report{Kind: outcome.Escalated, Context: met(outcome.GuardDenied), Question: "?"})
	b.attempt(ids[2], outcome.Report{Kind: outcome.Blocked, Context: met(outcome.OtherObstacle),
		Condition: &outcome.Condition{Kind: outcome.PersonHas, What: "approved it"}})
	want(pools.Open, 3, 1, 2)
	b.do(func(s *Step) error { _, err := s.PausePool(ann, "p", "a reason"); return err })
	want(pools.Paused, 3, 1, 2)
	if got := b.PoolTasks("none"); got.Pool.State != pools.Open || got.Ready+got.InProgress+got.ForPerson != 0 {
		t.Errorf("%+v", got)
	}
}

// The tasks that were tried last come first, closed ones as well.
func TestLastTried(t *testing.T) {
	b, ids := newPoolBench(t, 5)
	b.config.PoolLimit = func() pools.Limit { return pools.Limit{} }
	elsewhere := b.add(Draft{Title: "elsewhere", Pool: "q"})
	last := func(n int) string {
		var all []string
		for _, task := range b.LastTried("p", n) {
			all = append(all, task.ID)
		}
		return strings.Join(all, " ")
	}
	if got := last(3); got != "" {
		t.Errorf("before the first attempt: %s", got)
	}
	for _, i := range []int{3, 0, 4, 1, 3} {
		b.fails(ids[i], outcome.VerificationFailed)
	}
	b.fails(elsewhere, outcome.VerificationFailed)
	b.close(ids[4], Completed)
	for n, want := range map[int]string{
		1: ids[3], 3: strings.Join([]string{ids[3], ids[1], ids[4]}, " "),
		9: strings.Join([]string{ids[3], ids[1], ids[4], ids[0]}, " "),
	} {
		if got := last(n); got != want {
			t.Errorf("the last %d are %s, want %s", n, got, want)
		}
	}
}
