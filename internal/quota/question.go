package quota

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/question"
)

// Questions are the questions to people.
type Questions interface {
	List(agent string, all bool) []question.Question
	Ask(context.Context, question.Draft) (q question.Question, fresh bool, err error)
	Withdraw(ctx context.Context, agent, id string) (question.Question, error)
	Take(ctx context.Context, agent, id string) (question.Question, error)
}

// Sender is in front of the name of a pool in its question.
const Sender = "quota/"

// The answers to the question about a pool.
const (
	answerResume = "resume"
	answerLeave  = "leave"
)

// Ask asks one question about each pool that is stopped, and carries out the answers.
func (m *Manager) Ask(ctx context.Context, all Questions) {
	stopped := map[string]Info{}
	for _, p := range m.Pools() {
		if p.State == Stopped {
			stopped[Sender+p.Name] = p
		}
	}
	failed := func(err error, name string) {
		if err != nil && ctx.Err() == nil {
			m.Logger.Warn("cannot deal with the question about a quota", "quota", name, "error", err)
		}
	}
	for _, q := range all.List("", true) {
		name, ok := strings.CutPrefix(q.From, Sender)
		if !ok || q.Incarnation != 0 {
			continue
		}
		p, lasts := stopped[q.From]
		switch {
		case q.State == question.Open && lasts && !q.At.Before(p.Since):
			delete(stopped, q.From)
		case q.State == question.Open:
			_, err := all.Withdraw(ctx, q.From, q.ID)
			failed(err, name)
		case q.State == question.Answered && lasts && !q.At.Before(p.Since):
			delete(stopped, q.From) // it was asked, and stays stopped if the answer says so
			if !q.TakenAt.IsZero() {
				continue
			}
			_, err := all.Take(ctx, q.From, q.ID)
			if err == nil && q.Answer == answerResume {
				err = m.Resume(name)
			}
			failed(err, name)
		}
	}
	for from, p := range stopped {
		agents := "wait"
		if p.Next != "" {
			agents = "go on with " + p.Next + " while that serves"
		}
		_, _, err := all.Ask(ctx, question.Draft{
			From: from, Options: []string{answerResume, answerLeave},
			Text: fmt.Sprintf("%s: %s: %s. Its agents %s. "+
				"When that is mended, answer %s, and one of them tries first.",
				p.Name, p.Obstacle, p.Reason, agents, answerResume),
		})
		if errors.Is(err, question.ErrTooMany) {
			err = nil
		}
		failed(err, p.Name)
	}
}
