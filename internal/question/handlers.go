package question

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/token"
)

// Register adds the handlers of all question routes to a server.
func (s *Service) Register(server *api.Server) {
	s.RegisterReadOnly(server)
	Ask.Handle(server, s.ask)
	Await.Handle(server, s.await)
	Take.Handle(server, s.take)
	Answer.Handle(server, func(ctx context.Context, _ token.Caller, req AnswerRequest) (Question, error) {
		return s.Answer(ctx, req.ID, req.Answer, cmp.Or(req.By, mail.People))
	})
	Withdraw.Handle(server, func(ctx context.Context, who token.Caller, req ID) (Question, error) {
		return s.Withdraw(ctx, who.Path, req.ID)
	})
}

// RegisterReadOnly adds the handlers that work without a daemon.
func (s *Service) RegisterReadOnly(server *api.Server) {
	List.Handle(server, func(_ context.Context, _ token.Caller, req ListRequest) ([]Question, error) {
		return s.List("", req.All), nil
	})
	Get.Handle(server, func(_ context.Context, who token.Caller, req ID) (Question, error) {
		return s.Get(who.Path, req.ID)
	})
}

func (s *Service) ask(ctx context.Context, who token.Caller, req AskRequest) (Question, error) {
	if most := MaxDeadline.Seconds(); req.Deadline < 0 || req.Deadline > most {
		return Question{}, fmt.Errorf("%w: deadline_seconds is %v, expected up to %.0f", api.ErrInvalid,
			req.Deadline, most)
	}
	q, _, err := s.Ask(ctx, Draft{
		From: who.Path, Incarnation: who.Incarnation, Text: req.Text, Options: req.Options, Default: req.Default,
		Within: time.Duration(req.Deadline * float64(time.Second)), Key: req.Key,
	})
	return q, err
}

func (s *Service) await(ctx context.Context, who token.Caller, req ID) (q Question, err error) {
	err = s.o.Await(ctx, who, func(ctx context.Context) error {
		q, err = s.Wait(ctx, who.Path, req.ID)
		return err
	})
	return q, err
}

// take takes an answer, and archives the mail about it.
func (s *Service) take(ctx context.Context, who token.Caller, req ID) (Question, error) {
	q, err := s.Take(ctx, who.Path, req.ID)
	if err == nil && q.State != Open && s.o.Mail != nil {
		err = s.o.Mail.ArchiveSent(ctx, mail.People, answerKey(q))
	}
	return q, err
}
