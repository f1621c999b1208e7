package daemon

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// Caller is part of api.Agents.
func (c *Controller) Caller(_ context.Context, token string) (api.Caller, error) {
	who, err := c.credentials.caller(token)
	if err == nil {
		c.sign(who)
	}
	return who, err
}

// begin readies what an incarnation finds when it starts, and returns its token.
func (c *Controller) begin(self supervisor.Self) string {
	who := api.Caller{Path: self.Path, Incarnation: self.Incarnation}
	c.beginVitals(who)
	return c.credentials.issue(who)
}

// resumed is begin for an incarnation that was there before this controller.
func (c *Controller) resumed(o runtime.Observation) {
	if o.Life == runtime.Unknown {
		c.credentials.expect(o.Path)
		return
	}
	who := api.Caller{Path: o.Path, Incarnation: o.Incarnation}
	c.beginVitals(who)
	c.credentials.restore(who, o.Token)
}

// over clears up after an incarnation that has ended, or could not start.
func (c *Controller) over(path string, incarnation uint64) {
	who := api.Caller{Path: path, Incarnation: incarnation}
	c.credentials.revoke(who)
	c.endVitals(who)
	c.endedDraining(who)
}
