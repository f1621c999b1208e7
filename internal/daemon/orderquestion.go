package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/question"
)

// This file asks people about orders that events fire at a slower pace, because
// they may trigger themselves: one question for each such time.

// The answers.
const (
	answerDisable = "disable"
	answerGoOn    = "go on"
)

// askOfOrders asks about each order that nothing was asked about since it is held
// to its pace, takes back questions about those that are not, and carries out the answers.
func (c *Controller) askOfOrders(ctx context.Context) {
	if c.orders == nil || isClosed(c.down) {
		return
	}
	paced := make(map[string]order.State)
	for _, v := range c.orders.List() {
		if v.Enabled && !v.State.PacedAt.IsZero() {
			paced[order.PathOf(v.Order.Name)] = v.State
		}
	}
	for _, q := range c.questions.List("", true) {
		if q.Incarnation != 0 || !c.ofOrders(q.From) {
			continue
		}
		var err error
		switch _, lasts := paced[q.From]; {
		case q.State == question.Open && !lasts:
			_, err = c.questions.Withdraw(ctx, q.From, q.ID)
		case q.State == question.Answered && q.TakenAt.IsZero():
			if q.Answer == answerDisable && lasts {
				err = c.orders.Enable(ctx, strings.TrimPrefix(q.From, order.PathOf("")), false)
			}
			if ctx.Err() != nil {
				return // the next controller carries it out
			}
			_, taken := c.questions.Take(ctx, q.From, q.ID)
			err = errors.Join(err, taken)
		}
		if err != nil && ctx.Err() == nil {
			c.opts.Logger.Warn("cannot deal with the question of an order", "path", q.From, "question", q.ID, "error",
				err)
		}
	}
	for path, s := range paced {
		_, _, err := c.questions.Ask(ctx, question.Draft{
			From: path, Key: s.PacedAt.UTC().Format(time.RFC3339Nano), Options: []string{answerDisable, answerGoOn},
			Text: fmt.Sprintf("Events fire order %s again and again (%d runs so far); from now on once a minute at "+
				"most. Does it trigger itself? Disable it, or let it go on?", s.Name, s.Runs),
		})
		if err != nil && ctx.Err() == nil {
			c.opts.Logger.Warn("cannot ask about an order", "path", path, "error", err)
		}
	}
}
