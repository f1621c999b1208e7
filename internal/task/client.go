package task

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
)

// ListAll returns the first tasks that a filter selects, in priority order; all of them if limit
// is 0. It reads page by page, so tasks that change meanwhile are of different moments.
func ListAll(ctx context.Context, c *api.Client, f Filter, limit int) ([]Task, error) {
	all := []Task{}
	for after := ""; ; {
		most := MaxPage
		if limit > 0 {
			most = min(most, limit-len(all))
		}
		page, err := List.Call(ctx, c, ListRequest{Filter: f, Limit: uint64(most), After: after})
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < most || len(all) == limit {
			return all, nil
		}
		after = page[len(page)-1].ID
	}
}
