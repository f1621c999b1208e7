package daemon

import "context"

// nudge makes a living agent aware of something, where its runtime can do that.
func (c *Controller) nudge(ctx context.Context, path, text string) {}
