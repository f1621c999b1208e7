package daemon

import (
	"context"
	"iter"

	"github.com/coppice-dev/coppice/internal/event"
)

// Asked is closed when somebody has asked for the end by Down or Stop.
func (c *Controller) Asked() <-chan struct{} { return c.down }

// Events yields the events of a query, whose path may leave out the beginning.
func (c *Controller) Events(ctx context.Context, q event.Query) iter.Seq2[event.Event, error] {
	if q.Path != "" && !(directory{c}).isOrder(q.Path) {
		q.Path = c.fleet().Resolve(q.Path)
	}
	return c.log.Events(ctx, q)
}
