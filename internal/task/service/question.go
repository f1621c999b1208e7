package service

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
)

// Sender is in front of the id of a task in the question about it.
const Sender = "task/"

// answerCancel is the answer that closes a task. Any other one opens it.
const answerCancel = "cancel"

// questions has the tasks about which people are asked.
type questions struct {
	mu    sync.Mutex
	asked map[string]bool // by id
}

// changed takes note of a task, and reports whether people may have to be asked about it, or no more.
func (q *questions) changed(t task.Task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	asks := t.Question != nil
	if !asks && !q.asked[t.ID] {
		return false
	}
	if q.asked == nil {
		q.asked = map[string]bool{}
	}
	if q.asked[t.ID] = asks; !asks {
		delete(q.asked, t.ID)
	}
	return true
}

// Ask asks one question about each task that waits for a person, and carries out the answers.
func (s *Service) Ask(ctx context.Context, desk question.Desk) {
	all, err := s.queue.Questions(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.o.Logger.Warn("cannot ask people about tasks", "error", err)
		}
		return
	}
	lasting := map[string]question.Matter{}
	for _, t := range all {
		lasting[Sender+t.ID] = question.Matter{Since: t.Question.At, Text: questionText(t)}
	}
	question.Matters{
		Lasting: lasting, Logger: s.o.Logger,
		About:  func(sender string) bool { return strings.HasPrefix(sender, Sender) },
		Answer: func(ctx context.Context, sender, answer string) error { return s.answered(ctx, sender, answer) },
	}.Ask(ctx, desk, store.ErrUnknown)
}

// questionText returns the question about a task, and what its answers do.
func questionText(t task.Task) string {
	const most = question.MaxText / 2
	text := t.Question.Text
	if len(text) > most {
		text = text[:most] + " ..." // the question desk makes it UTF-8
	}
	return fmt.Sprintf("%s (%s): %s\n\nYour answer goes to the next attempt. Answer %q to close the task instead. "+
		"coppice task show %[1]s has what was tried.", t.ID, t.Title, text, answerCancel)
}

// answered carries out the answer to the question about a task. It may be repeated.
func (s *Service) answered(ctx context.Context, sender, answer string) error {
	id, by := strings.TrimPrefix(sender, Sender), task.Actor{Name: task.People}
	var err error
	if strings.EqualFold(strings.TrimSpace(answer), answerCancel) {
		_, err = s.queue.Reject(ctx, by, id, "answered with: "+answerCancel)
	} else {
		_, err = s.queue.Answer(ctx, by, id, answer)
	}
	return err
}
