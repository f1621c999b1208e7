package controller

import (
	"context"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
)

// openBeliefs reads the beliefs of all agents.
func (c *Controller) openBeliefs(ctx context.Context) error {
	problems, err := c.readBeliefs(ctx)
	if err != nil {
		return err
	}
	c.beliefs.Report(problems)
	return nil
}

func (c *Controller) readBeliefs(ctx context.Context) (problems []belief.Problem, err error) {
	c.beliefs, problems, err = belief.NewService(ctx, belief.ServiceOptions{
		Store: c.opts.Store, Log: c.log, Logger: c.opts.Logger, Tree: directory{c},
	})
	if err == nil {
		c.declareBeliefs(c.fleet())
	}
	return problems, err
}

// declareBeliefs tells the beliefs which of them agents of the fleet may have.
func (c *Controller) declareBeliefs(f *fleet.Fleet) {
	for path, a := range f.Agents {
		c.beliefs.Store.Declare(path, a.Beliefs)
	}
}
