package task

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
)

// Select returns a filter as a request has it.
func Select(f Filter) Selection {
	s := Selection{
		Pool: f.Pool, Assignee: f.Assignee, Labels: f.Labels, Type: f.Type, Parent: f.Parent,
		Ready: f.Ready, Active: f.Active, All: f.All,
	}
	for _, status := range f.Statuses {
		s.Statuses = append(s.Statuses, string(status))
	}
	return s
}

// Filter is the reverse of Select.
func (s Selection) Filter() Filter {
	f := Filter{
		Pool: s.Pool, Assignee: s.Assignee, Labels: s.Labels, Type: s.Type, Parent: s.Parent,
		Ready: s.Ready, Active: s.Active, All: s.All,
	}
	for _, status := range s.Statuses {
		f.Statuses = append(f.Statuses, Status(status))
	}
	return f
}

// ListAll asks a daemon for tasks, what comes first first, page by page: where they
// change meanwhile, each is as it was at some moment.
func ListAll(ctx context.Context, c *api.Client, f Filter) ([]Task, error) {
	all := []Task{}
	for after := f.After; ; {
		most := MaxPage
		if f.Limit > 0 {
			most = min(most, f.Limit-len(all))
		}
		page, err := List.Call(ctx, c, ListRequest{Selection: Select(f), Limit: uint64(most), After: after})
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < most || len(all) == f.Limit {
			return all, nil
		}
		after = page[len(page)-1].ID
	}
}
