package dispatch

import (
	"context"
	"fmt"
	"strings"

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
func (d *Dispatcher) AskAboutPaced(ctx context.Context, desk question.Desk, isOrder func(path string) bool) {
	if !d.isOpen() {
		return
	}
	paced := map[string]question.Matter{}
	for _, v := range d.List() {
		if s := v.State; v.Enabled && !s.PacedAt.IsZero() {
			paced[order.PathOf(v.Order.Name)] = question.Matter{
				Since: s.PacedAt, Options: []string{answerDisable, answerGoOn},
				Text: fmt.Sprintf("Events fire order %s again and again (%d runs so far); from now on once a minute "+
					"at most. Does it trigger itself? Disable it, or let it go on?", s.Name, s.Runs),
			}
		}
	}
	question.Matters{
		Lasting: paced, About: isOrder, Logger: d.o.Logger,
		Answer: func(ctx context.Context, path, answer string) error {
			if answer != answerDisable {
				return nil
			}
			return d.Enable(ctx, strings.TrimPrefix(path, order.PathOf("")), false)
		},
	}.Ask(ctx, desk, nil)
}

// isOpen reports whether the dispatcher fires orders and is not closed.
func (d *Dispatcher) isOpen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.o.Jobs != nil && !d.closed
}
