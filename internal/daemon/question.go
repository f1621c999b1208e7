package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/question"
)

// questionEvent is the log's entry of what has become of a question. What was
// answered is in it only where it is one of the options.
func questionEvent(q question.Question) event.Event {
	e := event.Event{Path: q.From, Incarnation: q.Incarnation, Actor: q.From}
	data := map[string]any{"id": q.ID, "question": mail.Title(q.Text)}
	switch q.State {
	case question.Open:
		e.Type, e.Message = event.QuestionAsked, fmt.Sprintf("%s asks %s: %s", q.From, q.ID, mail.Title(q.Text))
		data["options"] = q.Options
		if !q.Deadline.IsZero() {
			data["deadline"] = q.Deadline
		}
		if q.Default != "" {
			data["default"] = mail.Title(q.Default)
		}
	case question.Answered:
		e.Type, e.Actor, e.Message = event.QuestionAnswered, q.By, fmt.Sprintf("%s of %s was answered by %s", q.ID, q.From, q.By)
		if q.By == question.ByDeadline {
			e.Actor, e.Message = "controller", fmt.Sprintf("%s of %s got its default answer at its deadline", q.ID, q.From)
		}
		data["by"] = q.By
		if slices.Contains(q.Options, q.Answer) {
			e.Message += ": " + q.Answer
			data["answer"] = q.Answer
		}
	case question.Expired:
		e.Type, e.Actor, e.Message = event.QuestionExpired, "controller", fmt.Sprintf("%s of %s has expired without an answer", q.ID, q.From)
	default:
		e.Type, e.Message = event.QuestionWithdrawn, fmt.Sprintf("%s was withdrawn by %s", q.ID, q.From)
	}
	return e.With(data)
}

// Ask is part of api.Asking.
func (c *Controller) Ask(ctx context.Context, who api.Caller, q api.AskRequest) (question.Question, error) {
	asked, _, err := c.desk.Ask(ctx, question.Ask{
		From: who.Path, Incarnation: who.Incarnation, Text: q.Text, Options: q.Options, Default: q.Default, Within: q.Within(), Key: q.Key,
	})
	c.health.QuestionsChanged(who.Path)
	return asked, translated(err)
}

// Question is part of api.Asking.
func (c *Controller) Question(_ context.Context, who api.Caller, id string) (question.Question, error) {
	q, err := c.desk.Get(who.Path, id)
	return q, translated(err)
}

// AwaitAnswer is part of api.Asking.
func (c *Controller) AwaitAnswer(ctx context.Context, who api.Caller, id string) (q question.Question, err error) {
	err = c.health.Await(ctx, who, func(ctx context.Context) error {
		q, err = c.desk.Wait(ctx, who.Path, id)
		return err
	})
	return q, translated(err)
}

// TakeAnswer is part of api.Asking. What came by mail, too, is not news any more.
func (c *Controller) TakeAnswer(ctx context.Context, who api.Caller, id string) (question.Question, error) {
	q, err := c.desk.Take(ctx, who.Path, id)
	if err == nil && q.State != question.Open {
		err = c.mail.Settle(ctx, mail.People, answerKey(q))
	}
	return q, translated(err)
}

// takeAll takes the answers that were among messages which their agent has dealt with.
func (c *Controller) takeAll(ctx context.Context, messages []mail.Message) error {
	for _, m := range messages {
		if m.Question == "" || m.To == mail.People {
			continue
		}
		if _, err := c.desk.Take(ctx, m.To, m.Question); err != nil && !errors.Is(err, question.ErrNotFound) {
			return translated(err)
		}
	}
	return nil
}

// Withdraw is part of api.Asking.
func (c *Controller) Withdraw(ctx context.Context, who api.Caller, id string) (question.Question, error) {
	q, err := c.desk.Withdraw(ctx, who.Path, id)
	return q, translated(err)
}

// Questions is part of api.Asking.
func (c *Controller) Questions(_ context.Context, all bool) ([]question.Question, error) {
	return c.desk.List("", all), nil
}

// Answer is part of api.Asking.
func (c *Controller) Answer(ctx context.Context, a api.AnswerRequest) (question.Question, error) {
	q, err := c.desk.Answer(ctx, a.ID, a.Answer, cmp.Or(a.By, mail.People))
	return q, translated(err)
}

// needs is what an agent waits for a person to say; nil if it does not.
func (c *Controller) needs(path string) *api.NeedsInput {
	oldest, open := c.desk.Pending(path)
	if open == 0 {
		return nil
	}
	return &api.NeedsInput{ID: oldest.ID, Text: mail.Title(oldest.Text), At: oldest.At, Open: open}
}

// answerKey is what the message with the end of a question is sent under, once.
func answerKey(q question.Question) string { return "answer to " + q.ID }

// forwardAnswers sends what an agent has not taken, and nobody waits for, to it by mail.
func (c *Controller) forwardAnswers(path string) {
	for _, q := range c.desk.List(path, true) {
		ended := q.State == question.Answered || q.State == question.Expired
		if ended && q.TakenAt.IsZero() && !c.desk.Waited(q.ID) {
			c.forward(q)
		}
	}
}

// mailPatience is how long the end of an incarnation waits for its mail.
const mailPatience = 2 * time.Second

// forward tells an agent by mail how its question has ended. What fails now is
// tried again when the agent or the controller has ended.
func (c *Controller) forward(q question.Question) {
	if c.fleet().agents[q.From] == nil || q.State == question.Withdrawn {
		return
	}
	var text strings.Builder
	switch {
	case q.State == question.Expired:
		fmt.Fprintf(&text, "Nobody has answered %s before its deadline.\n", q.ID)
	case q.By == question.ByDeadline:
		fmt.Fprintf(&text, "Nobody has answered %s before its deadline; its default holds:\n\n%s\n", q.ID, q.Answer)
	default:
		fmt.Fprintf(&text, "%s has answered %s:\n\n%s\n", q.By, q.ID, q.Answer)
	}
	fmt.Fprintf(&text, "\nThe question was:\n\n%s\n", q.Text)
	ctx, cancel := context.WithTimeout(context.Background(), mailPatience)
	defer cancel()
	_, _, err := c.mail.Send(ctx, mail.Post{
		From: mail.People, To: q.From, Subject: "Answer to " + q.ID + ": " + mail.Title(q.Text), Body: text.String(), Question: q.ID, Key: answerKey(q),
	})
	if err != nil {
		c.opts.Logger.Warn("the answer to a question cannot be sent to its agent yet", "question", q.ID, "path", q.From, "error", err)
	}
}
