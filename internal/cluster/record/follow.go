package record

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

const followPause = time.Second // after an error of the store

// Follow keeps a copy of a prefix up to date until ctx ends or the store is closed. load reads all, and returns the
// revision; apply takes each change after it, once. failed is called with the errors of the store, after which Follow
// goes on.
func Follow(ctx context.Context, s store.Store, prefix string, load func(context.Context) (store.Rev, error),
	apply func(store.Change), failed func(error)) {
	for ctx.Err() == nil {
		rev, err := load(ctx)
		if err == nil {
			for c, watchErr := range s.Watch(ctx, prefix, rev) {
				if err = watchErr; err != nil {
					break
				}
				if c.Rev > rev { // a networked store may repeat changes
					rev = c.Rev
					apply(c)
				}
			}
		}
		switch {
		case errors.Is(err, store.ErrClosed):
			return
		case errors.Is(err, store.ErrCompacted):
			continue
		case ctx.Err() == nil:
			failed(err)
		}
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
		}
	}
}
