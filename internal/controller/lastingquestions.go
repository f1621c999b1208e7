package controller

import (
	"context"
	"strings"

	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/task/service"
)

// lastingQuestions asks people about what lasts: one question for as long as it does.
type lastingQuestions struct {
	c    *Controller
	look chan struct{} // holds a token when something may have changed
}

// run looks whenever something may have changed, until ctx ends.
func (p *lastingQuestions) run(ctx context.Context) {
	paused := true // before, perhaps
	about := func(sender string) bool {
		return !(directory{p.c}).isOrder(sender) && !strings.HasPrefix(sender, quota.Sender) &&
			!strings.HasPrefix(sender, budget.Sender) && !service.Asks(sender)
	}
	for {
		select {
		case <-p.look:
		case <-ctx.Done():
			return
		}
		p.c.orders.AskAboutPaced(ctx, p.c.questions, directory{p.c}.isOrder)
		p.c.quotas.Ask(ctx, p.c.questions)
		p.c.quotas.Tell(ctx, p.c.mail)
		p.c.budgets.Ask(ctx, p.c.questions)
		p.c.work.Ask(ctx, p.c.questions)
		if isClosed(p.c.down) { // what is stopped now was not resumed: the next controller goes on with it
			continue
		}
		if f := p.c.fleet(); paused || len(f.Pauses) > 0 {
			paused = p.c.control.AskAboutPauses(ctx, p.c.questions, f.Pauses, about)
		}
	}
}
