package question

import (
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
)

// changedEvent returns the log entry for the state of a question. It contains the answer only if
// that is one of the options.
func changedEvent(q Question) event.Event {
	e := event.Event{Path: q.From, Incarnation: q.Incarnation, Actor: q.From}
	data := map[string]any{"id": q.ID, "question": mail.Title(q.Text)}
	switch q.State {
	case Open:
		e.Type, e.Message = event.QuestionAsked, fmt.Sprintf("%s asks %s: %s", q.From, q.ID, mail.Title(q.Text))
		data["options"] = q.Options
		if !q.Deadline.IsZero() {
			data["deadline"] = q.Deadline
		}
		if q.Default != "" {
			data["default"] = mail.Title(q.Default)
		}
	case Answered:
		e.Type, e.Actor = event.QuestionAnswered, q.By
		e.Message = fmt.Sprintf("%s of %s was answered by %s", q.ID, q.From, q.By)
		if q.By == ByDeadline {
			e.Actor = "controller"
			e.Message = fmt.Sprintf("%s of %s got its default answer at its deadline", q.ID, q.From)
		}
		data["by"] = q.By
		if slices.Contains(q.Options, q.Answer) {
			e.Message += ": " + q.Answer
			data["answer"] = q.Answer
		}
	case Expired:
		e.Type, e.Actor = event.QuestionExpired, "controller"
		e.Message = fmt.Sprintf("%s of %s has expired without an answer", q.ID, q.From)
	default:
		e.Type, e.Message = event.QuestionWithdrawn, fmt.Sprintf("%s was withdrawn by %s", q.ID, q.From)
	}
	return e.With(data)
}
