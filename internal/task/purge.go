package task

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Purge removes tasks that are ephemeral and were closed for as long as ttl, and
// returns how many. What still waits for its children stays.
func (q *Queue) Purge(ctx context.Context, ttl time.Duration) (n int, err error) {
	old := now().Add(-ttl)
	over := func(x *index, r *record) bool {
		return r != nil && r.Ephemeral && r.closed() && !r.ClosedAt.After(old) && x.open[r.ID] == 0
	}
	var gone []string
	err = q.view(ctx, func(x *index) {
		gone = gone[:0]
		for id, e := range x.entries {
			if over(x, e.record) {
				gone = append(gone, id)
			}
		}
	})
	if err != nil {
		return 0, err
	}
	slices.Sort(gone)
	total := len(gone)
	for len(gone) > 0 {
		if gone, err = q.purge(ctx, gone, over); err != nil {
			return total - len(gone), fmt.Errorf("removing old tasks: %w", err)
		}
	}
	return total, nil
}

// purge removes the first of some tasks, as many as a step has room for, with
// their comments, and returns those that are left. What is not over any more stays.
func (q *Queue) purge(ctx context.Context, ids []string, over func(*index, *record) bool) (rest []string, err error) {
	err = q.update(ctx, func(s *step) error {
		n := 0
		for i, id := range ids {
			rest = ids[i:]
			r := q.index.get(id)
			if !over(&q.index, r) {
				continue
			}
			// The last comments go first, so that those which are left are whole.
			const least = 4 // ops for a task without comments, and to tell of all
			room := stepOps - len(s.changes) - len(s.ops) - least
			after := *r
			for ; room > 0 && after.Comments > 0; room-- {
				after.Comments--
				s.also(store.Op{Kind: store.Delete, Key: q.commentKey(id, after.Comments)})
			}
			if after.Comments > 0 {
				s.put(&after)
				break
			}
			if room < 0 {
				break
			}
			s.also(store.Op{Kind: store.Delete, Key: q.textKey(id)},
				store.Op{Kind: store.Delete, Key: q.broughtKey(id)})
			s.remove(id)
			n++
			rest = ids[i+1:]
		}
		if n > 0 {
			s.also(q.o.Also(Event{Kind: Purged, By: Who{Name: controller}, Of: n})...)
		}
		return nil
	})
	return rest, err
}
