package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/question"
)

// Answers to the question about an order that may trigger itself.
const (
	answerDisable = "disable"
	answerGoOn    = "go on"
)

// AskAboutPaced asks people about each order that events fire at a slower pace, as it may
// trigger itself. It asks once each time that this begins, withdraws questions about
// orders that are no longer slowed, and carries out the answers. isOrder reports whether
// a path in a question is that of an order.
func (d *Dispatcher) AskAboutPaced(ctx context.Context, questions *question.Service, isOrder func(path string) bool) {
	if !d.isOpen() {
		return
	}
	paced := make(map[string]order.State)
	for _, v := range d.List() {
		if v.Enabled && !v.State.PacedAt.IsZero() {
			paced[order.PathOf(v.Order.Name)] = v.State
		}
	}
	for _, q := range questions.List("", true) {
		if q.Incarnation != 0 || !isOrder(q.From) {
			continue
		}
		var err error
		switch _, lasts := paced[q.From]; {
		case q.State == question.Open && !lasts:
			_, err = questions.Withdraw(ctx, q.From, q.ID)
		case q.State == question.Answered && q.TakenAt.IsZero():
			if q.Answer == answerDisable && lasts {
				err = d.Enable(ctx, strings.TrimPrefix(q.From, order.PathOf("")), false)
			}
			if ctx.Err() != nil {
				return // the next daemon carries it out
			}
			_, taken := questions.Take(ctx, q.From, q.ID)
			err = errors.Join(err, taken)
		}
		if err != nil && ctx.Err() == nil {
			d.o.Logger.Warn("cannot handle the question about an order", "path", q.From, "question", q.ID, "error", err)
		}
	}
	for path, s := range paced {
		_, _, err := questions.Ask(ctx, question.Draft{
			From: path, Key: s.PacedAt.UTC().Format(time.RFC3339Nano), Options: []string{answerDisable, answerGoOn},
			Text: fmt.Sprintf("Events fire order %s again and again (%d runs so far); from now on once a minute at "+
				"most. Does it trigger itself? Disable it, or let it go on?", s.Name, s.Runs),
		})
		if err != nil && ctx.Err() == nil {
			d.o.Logger.Warn("cannot ask about an order", "path", path, "error", err)
		}
	}
}

// isOpen reports whether the dispatcher fires orders and is not closed.
func (d *Dispatcher) isOpen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.o.Jobs != nil && !d.closed
}
