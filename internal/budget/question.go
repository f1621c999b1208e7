package budget

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Sender is in front of the name of a budget in its question.
const Sender = "budget/"

// The answers to the question about a budget.
const (
	answerRaise = "raise"
	answerLeave = "leave"
)

// Ask asks one question about each budget that is reached, and carries out the answers.
func (m *Manager) Ask(ctx context.Context, desk question.Desk) {
	lasting := map[string]question.Matter{}
	for _, b := range m.Budgets() {
		if b.State != Reached {
			continue
		}
		lasting[Sender+b.Name] = question.Matter{
			Since: b.Since, Options: []string{answerRaise, answerLeave},
			Text: fmt.Sprintf("%s. %s. Answer %s to allow as much again.", b.Reason, b.waits(), answerRaise),
		}
	}
	question.Matters{
		Lasting: lasting, Logger: m.Logger,
		About: func(sender string) bool { return strings.HasPrefix(sender, Sender) },
		Answer: func(ctx context.Context, sender, answer string) error {
			if answer != answerRaise {
				return nil
			}
			return m.Raise(ctx, strings.TrimPrefix(sender, Sender))
		},
	}.Ask(ctx, desk, nil)
}

// waits says what waits for a budget that is reached.
func (i Info) waits() string {
	switch spec.Period(i.Per) {
	case spec.PerRun:
		return names(i.Parked) + " waits"
	case spec.PerTask:
		return "Parked: " + names(i.Tasks)
	}
	return "What it covers waits until " + i.Until.Format("15:04")
}
