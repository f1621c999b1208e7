package question

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Desk asks questions. *Service implements it.
type Desk interface {
	List(agent string, all bool) []Question
	Ask(context.Context, Draft) (q Question, fresh bool, err error)
	Withdraw(ctx context.Context, agent, id string) (Question, error)
	Take(ctx context.Context, agent, id string) (Question, error)
}

// Matter is a state of affairs that people are asked about, once for as long as it lasts.
type Matter struct {
	Text    string
	Options []string
	// Since is its beginning. A question that was asked earlier is withdrawn, and one that was answered later is not
	// asked again. If it is zero, the question is asked again when its answer was carried out and has ended nothing.
	Since time.Time
	// Unsure says that it is not known whether it lasts. Nothing is asked, withdrawn or carried out then.
	Unsure bool
}

// Matters are all states of affairs of a kind that last, by the sender of their questions.
type Matters struct {
	Lasting map[string]Matter
	// About reports whether a sender is that of a question of this kind.
	About func(sender string) bool
	// Answer carries out the answer to a question about something that lasts. It may be repeated.
	Answer func(ctx context.Context, sender, answer string) error
	Logger *slog.Logger
}

// Ask asks one question about each of the matters, withdraws those about others, and carries out the answers. It
// reports whether any of them lasts. It compares what lasts with what was asked, so no question is asked twice after a
// restart of the daemon. After an error that wraps retry, an answer is left for the next call.
func (m Matters) Ask(ctx context.Context, desk Desk, retry error) (lasts bool) {
	asked := map[string]bool{}
	for _, q := range desk.List("", true) {
		if q.Incarnation != 0 || !m.About(q.From) {
			continue
		}
		matter, lasts := m.Lasting[q.From]
		current := lasts && !q.At.Before(matter.Since)
		var err error
		switch {
		case matter.Unsure || asked[q.From]:
		case q.State == Open && current:
			asked[q.From] = true
		case q.State == Open:
			_, err = desk.Withdraw(ctx, q.From, q.ID)
		case q.State == Answered && q.TakenAt.IsZero():
			if current {
				asked[q.From] = true // the next look sees what has come of it
				err = m.Answer(ctx, q.From, q.Answer)
			}
			if retry != nil && errors.Is(err, retry) || ctx.Err() != nil {
				return true
			}
			_, taken := desk.Take(ctx, q.From, q.ID)
			err = errors.Join(err, taken)
		case q.State == Answered && current && !matter.Since.IsZero():
			asked[q.From] = true
		}
		m.failed(ctx, q.From, err)
	}
	for from, matter := range m.Lasting {
		if matter.Unsure || asked[from] {
			continue
		}
		_, _, err := desk.Ask(ctx, Draft{From: from, Text: matter.Text, Options: matter.Options})
		if !errors.Is(err, ErrTooMany) {
			m.failed(ctx, from, err)
		}
	}
	return len(m.Lasting) > 0
}

func (m Matters) failed(ctx context.Context, from string, err error) {
	if err != nil && ctx.Err() == nil {
		m.Logger.Warn("cannot deal with a question to people", "from", from, "error", err)
	}
}
