package question

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
)

// withMail opens a Service whose answers are mailed to the agent t/a.
func withMail(t *testing.T) (s *Service, post *mail.Service) {
	t.Helper()
	db := memory.New()
	logger := slog.New(slog.DiscardHandler)
	post, err := mail.Open(t.Context(), mail.Options{
		Store: db, Logger: logger,
		Handled: func(ctx context.Context, all []mail.Message) error { return s.TakeMailed(ctx, all) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err = OpenService(t.Context(), Options{
		Store: db, Logger: logger, Mail: post, IsAgent: func(path string) bool { return path == "t/a" },
		Await: func(ctx context.Context, _ token.Caller, wait func(context.Context) error) error { return wait(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		db.Close()
	})
	return s, post
}

// withServer is withMail with a server and clients.
func withServer(t *testing.T) (s *Service, post *mail.Service, people, agent *api.Client) {
	t.Helper()
	s, post = withMail(t)
	d := apitest.Serve(t, func(server *api.Server) {
		s.Register(server)
		post.Register(server)
	})
	return s, post, d.People(), d.Agent("t/a")
}

// An agent asks and waits, a person answers, and the agent gets the answer once.
func TestAskAndAnswer(t *testing.T) {
	_, _, people, agent := withServer(t)
	ctx := t.Context()
	q, err := Ask.Call(ctx, agent, AskRequest{Text: "Deploy?", Options: []string{"yes", "no"}, Deadline: 3600})
	if err != nil || q.State != Open || q.From != "t/a" || q.Incarnation != 1 || q.Deadline.Sub(q.At) != time.Hour {
		t.Fatalf("%+v, %v", q, err)
	}
	got := make(chan Question, 1)
	go func() {
		defer close(got)
		if q, err := Await.Call(ctx, agent, ID{ID: q.ID}); err == nil {
			got <- q
		}
	}()
	if open, err := List.Call(ctx, people, ListRequest{}); err != nil || len(open) != 1 || open[0].ID != q.ID {
		t.Errorf("%+v, %v", open, err)
	}
	if _, err := Answer.Call(ctx, people, AnswerRequest{ID: q.ID, Answer: "maybe"}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("none of the options: %v", err)
	}
	if q, err := Answer.Call(ctx, people, AnswerRequest{ID: q.ID, Answer: "yes"}); err != nil || q.By != mail.People {
		t.Errorf("%+v, %v", q, err)
	}
	if _, err := Answer.Call(ctx, people, AnswerRequest{ID: q.ID, Answer: "no"}); !errors.Is(err, api.ErrConflict) {
		t.Errorf("answered twice: %v", err)
	}
	if q := <-got; q.Answer != "yes" {
		t.Errorf("the agent got %+v", q)
	}
	if q, err := Take.Call(ctx, agent, ID{ID: q.ID}); err != nil || q.TakenAt.IsZero() {
		t.Errorf("%+v, %v", q, err)
	}
	if open, err := List.Call(ctx, people, ListRequest{}); err != nil || open == nil || len(open) != 0 {
		t.Errorf("%#v, %v", open, err)
	}
}

// No mail is sent if a caller waits for the answer, or no agent has asked.
func TestNoMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, post := withMail(t)
		for _, from := range []string{"t/a", "t/paused"} {
			q := ask(t, s, Draft{From: from, Text: "x"})
			if from == "t/a" {
				go s.Wait(t.Context(), from, q.ID)
				synctest.Wait()
			}
			if _, err := s.Answer(t.Context(), q.ID, "y", "ann"); err != nil || post.Unread(from) != 0 {
				t.Errorf("%s: %v, %d messages", from, err, post.Unread(from))
			}
		}
	})
}

// An answer that the agent does not wait for is mailed. Reading the message takes the answer, and
// taking the answer archives the message.
func TestAnswerByMail(t *testing.T) {
	_, post, people, agent := withServer(t)
	ctx := t.Context()
	answered := func(text string) (q Question, message string) {
		t.Helper()
		q, err := Ask.Call(ctx, agent, AskRequest{Text: text})
		if err == nil {
			_, err = Answer.Call(ctx, people, AnswerRequest{ID: q.ID, Answer: "blue", By: "ann"})
		}
		unread := post.List("t/a", false)
		if err != nil || len(unread) != 1 || unread[0].Question != q.ID {
			t.Fatalf("%v, mail %+v", err, unread)
		}
		return q, unread[0].ID
	}
	taken := func(q Question) bool {
		t.Helper()
		q, err := Get.Call(ctx, agent, ID{ID: q.ID})
		if err != nil {
			t.Error(err)
		}
		return !q.TakenAt.IsZero()
	}
	q, id := answered("Which colour?")
	if taken(q) {
		t.Error("it is taken before the message is read")
	}
	read, err := mail.Read.Call(ctx, agent, mail.IDs{IDs: []string{id}})
	if err != nil || !strings.Contains(read[0].Body, "blue") || !strings.Contains(read[0].Body, "Which colour?") || !taken(q) {
		t.Errorf("%+v, %v", read, err)
	}
	q, _ = answered("Which size?")
	if _, err := Take.Call(ctx, agent, ID{ID: q.ID}); err != nil || post.Unread("t/a") != 0 {
		t.Errorf("%v, %d unread after it was taken", err, post.Unread("t/a"))
	}
}

// An agent reaches only its own questions, and deadlines are bounded.
func TestRefused(t *testing.T) {
	s, _, people, agent := withServer(t)
	ctx := t.Context()
	other := ask(t, s, Draft{From: "t/b", Text: "x"})
	for name, call := range map[string]func() (Question, error){
		"get":      func() (Question, error) { return Get.Call(ctx, agent, ID{ID: other.ID}) },
		"await":    func() (Question, error) { return Await.Call(ctx, agent, ID{ID: other.ID}) },
		"take":     func() (Question, error) { return Take.Call(ctx, agent, ID{ID: other.ID}) },
		"withdraw": func() (Question, error) { return Withdraw.Call(ctx, agent, ID{ID: other.ID}) },
	} {
		if q, err := call(); !errors.Is(err, api.ErrNotFound) {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
	}
	if q, err := Get.Call(ctx, people, ID{ID: other.ID}); err != nil || q.ID != other.ID {
		t.Errorf("people: %+v, %v", q, err)
	}
	for _, seconds := range []float64{-1, MaxDeadline.Seconds() + 1, 1e300} {
		if _, err := Ask.Call(ctx, agent, AskRequest{Text: "x", Deadline: seconds}); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("a deadline in %v s: %v", seconds, err)
		}
	}
}

// Each state has its own event type.
func TestEventTypes(t *testing.T) {
	for state, want := range map[State]event.Type{
		Open: event.QuestionAsked, Answered: event.QuestionAnswered,
		Expired: event.QuestionExpired, Withdrawn: event.QuestionWithdrawn,
	} {
		if got := changedEvent(Question{State: state}).Type; got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}
