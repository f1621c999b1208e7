package daemon

import (
	"context"
	"iter"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// Unfinished is part of api.Unfinished. It goes on over restarts.
func (c *Controller) Unfinished(ctx context.Context, path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		path := c.full(path)
		if c.fleet().agents[path] == nil {
			yield("", c.noNode(path))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		last := ""
		tell := func(text string) {
			if text != last && ctx.Err() == nil && !yield(text, nil) {
				cancel()
			}
			last = text
		}
		var seen runtime.Session
		tick := time.NewTicker(sessionTime)
		defer tick.Stop()
		for {
			if s := c.live(path); s != nil && s != seen {
				seen = s
				if u, ok := s.(runtime.Unfinished); ok {
					_ = u.Unfinished(ctx, tell) // of a shim that cannot tell there is nothing to show
					tell("")
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			case <-c.ended:
				return
			}
		}
	}
}

// sessionTime is how soon the next incarnation of an agent is looked at.
const sessionTime = 200 * time.Millisecond
