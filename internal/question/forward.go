package question

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/mail"
)

// answerKey returns the key under which the outcome of a question is mailed, so it is sent once.
func answerKey(q Question) string { return "answer to " + q.ID }

// Forward mails an agent the answers that it has not taken and does not wait for.
func (s *Service) Forward(path string) {
	for _, q := range s.List(path, true) {
		ended := q.State == Answered || q.State == Expired
		if ended && q.TakenAt.IsZero() && !s.Waited(q.ID) {
			s.forward(q)
		}
	}
}

// mailTimeout bounds the time that mail may delay the end of a question or an incarnation.
const mailTimeout = 2 * time.Second

// forward mails an agent the outcome of its question. After a failure it is tried again when the
// agent exits or the daemon restarts.
func (s *Service) forward(q Question) {
	if s.o.Mail == nil || q.State == Withdrawn || !s.o.IsAgent(q.From) {
		return
	}
	var text strings.Builder
	switch {
	case q.State == Expired:
		fmt.Fprintf(&text, "%s was not answered before its deadline.\n", q.ID)
	case q.By == ByDeadline:
		fmt.Fprintf(&text, "%s was not answered before its deadline; its default holds:\n\n%s\n", q.ID, q.Answer)
	default:
		fmt.Fprintf(&text, "%s has answered %s:\n\n%s\n", q.By, q.ID, q.Answer)
	}
	fmt.Fprintf(&text, "\nThe question was:\n\n%s\n", q.Text)
	ctx, cancel := context.WithTimeout(context.Background(), mailTimeout)
	defer cancel()
	_, _, err := s.o.Mail.Send(ctx, mail.Post{
		From: mail.People, To: q.From, Subject: "Answer to " + q.ID + ": " + mail.Title(q.Text), Body: text.String(),
		Question: q.ID, Key: answerKey(q),
	})
	if err != nil {
		s.o.Logger.Warn("cannot send the answer to a question to its agent; retrying later", "question", q.ID,
			"path", q.From,
			"error", err)
	}
}

// TakeMailed takes the answers in messages that their agent has read or archived.
func (s *Service) TakeMailed(ctx context.Context, messages []mail.Message) error {
	for _, m := range messages {
		if m.Question == "" || m.To == mail.People {
			continue
		}
		if _, err := s.Take(ctx, m.To, m.Question); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}
