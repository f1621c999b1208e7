package daemon

// nudge makes a living agent aware of something, where its runtime can do that.
func (c *Controller) nudge(path, text string) {}
