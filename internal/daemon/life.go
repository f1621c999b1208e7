package daemon

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// Caller is part of api.Access.
func (c *Controller) Caller(_ context.Context, token string) (api.Caller, error) {
	who, err := c.tokens.Caller(token)
	if err == nil {
		c.health.Request(who)
	}
	return who, err
}

// begin readies what an incarnation finds when it starts, and returns its token.
func (c *Controller) begin(ctx context.Context, self supervisor.Self) (token string, err error) {
	c.mail.Start(self.Path, self.Incarnation)
	who := api.Caller{Path: self.Path, Incarnation: self.Incarnation}
	c.health.Register(who)
	token = c.tokens.Issue(who)
	c.claims.Begin(self.Path, token)
	c.beginWork(who, token)
	return token, c.remember(ctx, who, token)
}

// resumed is begin for an incarnation that was there before this controller.
func (c *Controller) resumed(ctx context.Context, o runtime.Observation) error {
	if o.Life == runtime.Unknown {
		c.tokens.Expect(o.Path)
		return nil
	}
	who := api.Caller{Path: o.Path, Incarnation: o.Incarnation}
	c.health.Register(who)
	err := c.remember(ctx, who, o.Token) // before it can ask for them
	c.tokens.Restore(who, o.Token)
	c.claims.Begin(o.Path, o.Token)
	c.beginWork(who, o.Token)
	return err
}

// over clears up after an incarnation that has ended, or could not start. failure
// says how it has failed, if it has: see failureOf.
func (c *Controller) over(path string, incarnation uint64, failure string) {
	who := api.Caller{Path: path, Incarnation: incarnation}
	c.tokens.Revoke(who)
	c.health.End(who)
	c.questions.Forward(path)
	c.beliefs.End(path, incarnation)
	c.drains.Exited(path, incarnation)
	c.endWork(who, failure)
}
