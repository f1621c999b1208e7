package task_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/token"
)

// An answer holds one page of tasks, and ListAll returns all pages.
func TestListAll(t *testing.T) {
	for _, test := range []struct {
		there, limit int
		want         []int
	}{
		{0, 0, []int{0}},
		{3, 0, []int{3}},
		{3, 2, []int{2}},
		{12_000, 0, []int{5000, 5000, 2000}},
		{10_000, 0, []int{5000, 5000, 0}},
		{12_000, 7000, []int{5000, 2000}},
		{6000, 7000, []int{5000, 1000}},
		{6000, 5000, []int{5000}},
	} {
		t.Run(fmt.Sprintf("%d of %d", test.limit, test.there), func(t *testing.T) {
			var there []task.Task
			for n := range test.there {
				there = append(there, task.Task{ID: fmt.Sprint("t-", n), Title: "x"})
			}
			var sizes []int // of the answers
			handler := func(_ context.Context, _ token.Caller, req task.ListRequest) ([]task.Task, error) {
				page := there
				if req.After != "" {
					page = page[1+slices.IndexFunc(page, func(t task.Task) bool { return t.ID == req.After }):]
				}
				page = page[:min(uint64(len(page)), req.Limit)]
				sizes = append(sizes, len(page))
				return page, nil
			}
			client := api.Local(func(s *api.Server) { task.List.Handle(s, handler) })
			defer client.Close()
			got, err := task.ListAll(t.Context(), client, task.Filter{}, test.limit)
			if err != nil || !slices.Equal(sizes, test.want) {
				t.Errorf("the answers had %v tasks, want %v; %v", sizes, test.want, err)
			}
			want := there
			if test.limit > 0 {
				want = want[:min(test.limit, len(want))]
			}
			if !slices.EqualFunc(got, want, func(a, b task.Task) bool { return a.ID == b.ID }) || got == nil {
				t.Errorf("%d tasks, want %d", len(got), len(want))
			}
		})
	}
}
