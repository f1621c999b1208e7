package daemon

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// Caller is part of api.Agents.
func (c *Controller) Caller(_ context.Context, token string) (api.Caller, error) {
	return c.credentials.caller(token)
}

// begin readies what an incarnation finds when it starts, and returns its token.
func (c *Controller) begin(self supervisor.Self) string {
	return c.credentials.issue(api.Caller{Path: self.Path, Incarnation: self.Incarnation})
}

// resumed is begin for an incarnation that was there before this controller.
func (c *Controller) resumed(o runtime.Observation) {
	if o.Life == runtime.Unknown {
		c.credentials.expect(o.Path)
		return
	}
	c.credentials.restore(api.Caller{Path: o.Path, Incarnation: o.Incarnation}, o.Token)
}

// over clears up after an incarnation that has ended, or could not start.
func (c *Controller) over(path string, incarnation uint64) {
	c.credentials.revoke(api.Caller{Path: path, Incarnation: incarnation})
}
