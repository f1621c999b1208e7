package api_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/status/statustest"
	"github.com/coppice-dev/coppice/internal/task"
)

// manyTasks is a daemon with tasks in an order.
type manyTasks struct {
	*statustest.Fleet
	all   []task.Task
	asked *[]int // how many each request got
}

func (m manyTasks) Tasks(_ context.Context, _ api.Caller, f task.Filter) ([]task.Task, error) {
	all := m.all
	if f.After != "" {
		all = all[1+slices.IndexFunc(all, func(t task.Task) bool { return t.ID == f.After }):]
	}
	all = all[:min(len(all), f.Limit)]
	*m.asked = append(*m.asked, len(all))
	return all, nil
}

// However many tasks there are, an answer holds a page of them, and the client has them all.
func TestTaskPages(t *testing.T) {
	for _, test := range []struct {
		there, limit int
		want         []int
	}{
		{0, 0, []int{0}}, {3, 0, []int{3}}, {3, 2, []int{2}}, {12_000, 0, []int{5000, 5000, 2000}}, {10_000, 0, []int{5000, 5000, 0}},
		{12_000, 7000, []int{5000, 2000}}, {6000, 7000, []int{5000, 1000}}, {6000, 5000, []int{5000}},
	} {
		t.Run(fmt.Sprintf("%d of %d", test.limit, test.there), func(t *testing.T) {
			var asked []int
			m := manyTasks{Fleet: fleet(), asked: &asked}
			for n := range test.there {
				m.all = append(m.all, task.Task{ID: fmt.Sprint("t-", n), Title: "x"})
			}
			got, err := serve(t, m).Tasks(t.Context(), task.Filter{Limit: test.limit})
			if err != nil || !slices.Equal(asked, test.want) {
				t.Errorf("%v was got by the requests, want %v; %v", asked, test.want, err)
			}
			want := m.all
			if test.limit > 0 {
				want = want[:min(test.limit, len(want))]
			}
			if !slices.EqualFunc(got, want, func(a, b task.Task) bool { return a.ID == b.ID }) || got == nil {
				t.Errorf("%d tasks, want %d", len(got), len(want))
			}
		})
	}
}
