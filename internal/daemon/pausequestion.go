package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/supervisor"
)

// This file asks people what to do about a supervisor that its limit has paused: one question in the
// inbox for as long as the pause lasts. It compares the paused supervisors with the open questions,
// so that no question is asked twice after a restart.

// The answers.
const (
	answerResume = "resume"
	answerStop   = "stop"
)

// pauseQuestions asks the questions about pauses.
type pauseQuestions struct {
	c    *Controller
	look chan struct{} // holds a token when something may have changed
}

// run looks at the pauses whenever something may have changed, until ctx ends.
func (p *pauseQuestions) run(ctx context.Context) {
	asked := true // before, perhaps
	for {
		select {
		case <-p.look:
		case <-ctx.Done():
			return
		}
		p.c.orders.AskAboutPaced(ctx, p.c.questions, directory{p.c}.isOrder)
		p.c.quotas.Ask(ctx, p.c.questions)
		p.c.quotas.Tell(ctx, p.c.mail)
		if f := p.c.fleet(); asked || len(f.Pauses) > 0 {
			asked = p.ask(ctx, f)
		}
	}
}

// ask asks about each pause, and reports whether any lasts, or may last.
func (p *pauseQuestions) ask(ctx context.Context, f *fleet.Fleet) bool {
	paused := map[string]question.Matter{}
	for _, path := range f.Pauses {
		if text, known := p.text(path); text != "" || !known {
			paused[path] = question.Matter{Text: text, Options: []string{answerResume, answerStop}, Unsure: !known}
		}
	}
	if isClosed(p.c.down) { // what is stopped now was not resumed: the next controller goes on with it
		return true
	}
	return question.Matters{
		Lasting: paused, Logger: p.c.opts.Logger,
		About: func(sender string) bool {
			return !(directory{p.c}).isOrder(sender) && !strings.HasPrefix(sender, quota.Sender)
		},
		Answer: func(ctx context.Context, path, answer string) error {
			_, err := p.c.control.Act(ctx, path, control.Action(answer))
			p.c.loop.Requeue()
			return err
		},
	}.Ask(ctx, p.c.questions, api.ErrStopping)
}

// text returns what is asked about a supervisor that is paused now and holds
// something, "" for any other, and whether that is known: not while it is started.
func (p *pauseQuestions) text(path string) (text string, known bool) {
	sup := p.c.tree.Find(path)
	if sup == nil {
		return "", p.staysDown(path)
	}
	self, err := sup.SaveSelf()
	if err != nil || !self.Paused {
		return "", err == nil
	}
	children, err := sup.Children()
	for _, i := range children {
		if i.State == supervisor.Paused {
			return fmt.Sprintf("%s is paused: %s ended with %v (limit: %v). Resume it, or stop what is in it?", path,
				i.ID, i.LastExit, i.Limit), true
		}
	}
	return "", err == nil
}

// staysDown reports whether a supervisor that does not run is held down.
func (p *pauseQuestions) staysDown(path string) bool {
	above := p.c.tree.Find(parent(path))
	if above == nil {
		return false
	}
	_, id, _ := cutLast(path)
	info, err := above.Child(id)
	return err == nil && (info.State == supervisor.Suspended || reconcile.IsHeld(info.State))
}
