package web

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"slices"

	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/question"
)

// asked is a question as the inbox shows it.
type asked struct {
	question.Question
	ElementID   string
	At, Until   string
	Lines       []string
	OtherAnswer bool // it takes any text
	Operator    bool
}

// letter is a message as the inbox shows it.
type letter struct {
	mail.Message
	ElementID string
	At        string
	Operator  bool
}

// inboxPage shows what waits for an answer.
func (s *pages) inboxPage(ctx context.Context, q query) (*page, error) {
	questions, err := question.List.Call(ctx, s.Client, question.ListRequest{})
	if err != nil {
		return nil, err
	}
	messages, err := mail.List.Call(ctx, s.Client, mail.ListRequest{})
	if err != nil {
		return nil, err
	}
	p := &page{title: "Inbox", nav: "inbox", template: "inbox"}
	slices.SortStableFunc(questions, func(a, b question.Question) int { return a.At.Compare(b.At) })
	for _, one := range questions {
		name := fmt.Sprintf("question %s %s", one.ID, q.role)
		html, err := s.drawn.get(name, s.version(q, one.From), func() (template.HTML, error) {
			return s.renderPart("question", asked{
				Question: one, ElementID: "question-" + one.ID, At: stamp(one.At), Until: stamp(one.Deadline),
				Lines: s.lastLines(ctx, one.From), OtherAnswer: len(one.Options) == 0, Operator: q.role == operator,
			})
		})
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, part{id: "question-" + one.ID, list: "questions", html: html})
	}
	for _, m := range messages {
		html, err := s.renderPart("letter", letter{m, "mail-" + m.ID, stamp(m.At), q.role == operator})
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, part{id: "mail-" + m.ID, list: "letters", html: html})
	}
	counts, err := s.parts(map[string]any{
		"inbox-counts": map[string]int{"Questions": len(questions), "Mail": len(messages)},
	})
	p.parts = append(p.parts, counts...)
	return p, err
}

// lastLines returns the last lines of an agent's output. A question stays readable without them.
func (s *pages) lastLines(ctx context.Context, path string) (lines []string) {
	for l, err := range output.Logs(ctx, s.Client, output.Query{Paths: []string{path}, Lines: 5}) {
		if err != nil {
			return nil
		}
		if l.Between == nil && l.Path == path {
			lines = append(lines, plaintext.OneLine(l.Line, maxLine))
		}
	}
	return lines
}

// readMail shows a message, which counts as read then.
func (s *Server) readMail(w http.ResponseWriter, r *http.Request, who visitor) {
	messages, err := mail.Read.Call(r.Context(), s.Client, mail.IDs{IDs: []string{r.PostFormValue("name")}})
	if err != nil {
		s.fail(w, err)
		return
	}
	s.render(w, r, http.StatusOK, "mail", layout{Title: "Mail", Nav: "inbox", Role: who.role, Data: messages})
}
