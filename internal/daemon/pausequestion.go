package daemon

import (
	"context"
	"errors"
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

// ask asks about each pause that nothing is asked about, takes back
// questions about those that are over, and carries out the answers. It reports
// whether any question is left.
func (p *pauseQuestions) ask(ctx context.Context, f *fleet.Fleet) (asked bool) {
	paused, unknown := make(map[string]string), make(map[string]bool) // questions, by path
	for _, path := range f.Pauses {
		switch text, known := p.text(path); {
		case !known:
			unknown[path] = true
		case text != "":
			paused[path] = text
		}
	}
	if isClosed(p.c.down) { // what is stopped now was not resumed: the next controller goes on with it
		return true
	}
	for _, q := range p.c.questions.List("", true) {
		if q.Incarnation != 0 || (directory{p.c}).isOrder(q.From) ||
			strings.HasPrefix(q.From, quota.Sender) { // of an agent, an order or a quota
			continue
		}
		_, lasts := paused[q.From]
		var err error
		switch {
		case q.State == question.Open && (lasts || unknown[q.From]):
			asked = true
			delete(paused, q.From)
		case q.State == question.Open:
			_, err = p.c.questions.Withdraw(ctx, q.From, q.ID)
		case q.State == question.Answered && q.TakenAt.IsZero():
			if lasts {
				_, err = p.c.control.Act(ctx, q.From, control.Action(q.Answer))
				delete(paused, q.From) // the next look sees what came of it
			}
			if errors.Is(err, api.ErrStopping) || ctx.Err() != nil {
				return true // the next controller carries it out
			}
			_, taken := p.c.questions.Take(ctx, q.From, q.ID)
			err = errors.Join(err, taken)
			p.c.loop.Requeue()
		}
		if err != nil && ctx.Err() == nil {
			p.c.opts.Logger.Warn("cannot deal with the question of a paused supervisor", "path", q.From, "question",
				q.ID, "error", err)
		}
	}
	for path, text := range paused {
		asked = true
		if _, _, err := p.c.questions.Ask(ctx, question.Draft{From: path, Text: text,
			Options: []string{answerResume, answerStop}}); err != nil && ctx.Err() == nil {
			p.c.opts.Logger.Warn("cannot ask about a paused supervisor", "path", path, "error", err)
		}
	}
	return asked
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
