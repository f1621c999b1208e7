package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// Sender is in front of the id of a task in the question about it. PoolSender is in front of the name of a pool in the
// question about its pause, and ObstacleSender in that about what many of its tasks have met.
const (
	Sender         = "task/"
	PoolSender     = "tasks/"
	ObstacleSender = "obstacles/"
)

// Answers.
const (
	answerCancel = "cancel" // closes a task; any other answer opens it
	answerResume = "resume" // of a pool
	answerPause  = "pause"
	answerLeave  = "leave"
)

// Ask asks one question about each task that waits for a person, about each pool that is paused, and about the
// obstacles that many tasks of a pool have met, and carries out the answers.
func (s *Service) Ask(ctx context.Context, desk question.Desk) {
	var all []task.Task
	var known []pools.Pool
	err := s.queue.View(ctx, func(state *task.State) { all, known = state.Questions(), state.Pools() })
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			s.o.Logger.Warn("cannot ask people about tasks", "error", err)
		}
		return
	}
	lasting := map[string]question.Matter{}
	for _, t := range all {
		lasting[Sender+t.ID] = question.Matter{Since: t.Question.At, Text: questionText(t)}
	}
	for _, p := range known {
		if p.State == pools.Paused && p.ByDaemon() {
			lasting[PoolSender+p.Name] = question.Matter{
				Since: p.Since, Text: poolText(p), Options: []string{answerResume, answerLeave},
			}
		}
		if many := p.Repeated(time.Now()); len(many) > 0 {
			lasting[ObstacleSender+p.Name] = question.Matter{
				Since: lastSince(many), Text: obstaclesText(p.Name, many), Options: []string{answerPause, answerLeave},
			}
		}
	}
	question.Matters{
		Lasting: lasting, Logger: s.o.Logger, About: Asks,
		Answer: func(ctx context.Context, sender, answer string) error { return s.answered(ctx, sender, answer) },
	}.Ask(ctx, desk, store.ErrUnknown)
}

// Asks reports whether a sender is that of a question about a task or a pool.
func Asks(sender string) bool {
	return strings.HasPrefix(sender, Sender) || strings.HasPrefix(sender, PoolSender) ||
		strings.HasPrefix(sender, ObstacleSender)
}

// lastSince returns when the last of these obstacles became a matter for people. A question that was asked earlier does
// not have it.
func lastSince(many []pools.Obstacle) (at time.Time) {
	for _, o := range many {
		if o.Since.After(at) {
			at = o.Since
		}
	}
	return at
}

// maxObstacle bounds the text about one obstacle in a question, in bytes.
const maxObstacle = 600

// obstaclesText returns the question about the obstacles that many tasks of a pool have met.
func obstaclesText(pool string, many []pools.Obstacle) string {
	text := fmt.Sprintf("Many tasks of the pool %s have met the same obstacle within a day:", pool)
	for _, o := range many {
		one := plaintext.OneLine(o.String(), maxObstacle)
		text += "\n- " + one
	}
	return text + fmt.Sprintf("\n\nIs there a cause that you can repair? Answer %s to let no more of them be tried, "+
		"and %s to go on. After either answer the count begins again.", answerPause, answerLeave)
}

// poolText returns the question about a pool.
func poolText(p pools.Pool) string {
	text := fmt.Sprintf("The tasks of the pool %s are paused: %s. Answer %s to let one of them be tried, which "+
		"decides.", p.Name, p.Reason, answerResume)
	if !p.ProbeAt.IsZero() {
		text += " Without an answer one is tried at " + p.ProbeAt.Local().Format("15:04") + "."
	}
	return text
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
	by := task.Actor{Name: task.People}
	if pool, ok := strings.CutPrefix(sender, ObstacleSender); ok {
		return s.answeredObstacles(ctx, by, pool, answer)
	}
	if pool, ok := strings.CutPrefix(sender, PoolSender); ok {
		if answer != answerResume {
			return nil
		}
		return s.queue.Update(ctx, func(step *task.Step) error {
			_, err := step.ResumePool(by, pool)
			return err
		})
	}
	id := strings.TrimPrefix(sender, Sender)
	_, err := s.queue.Change(ctx, func(step *task.Step) (task.Task, error) {
		if strings.EqualFold(strings.TrimSpace(answer), answerCancel) {
			return step.Reject(by, id, "answered with: "+answerCancel)
		}
		return step.Answer(by, id, answer)
	})
	return err
}

// answeredObstacles carries out the answer to the question about the obstacles that many tasks of a pool have met.
func (s *Service) answeredObstacles(ctx context.Context, by task.Actor, pool, answer string) error {
	return s.queue.Update(ctx, func(step *task.Step) error {
		if answer == answerPause {
			if _, err := step.PausePool(by, pool, "many of its tasks have met the same obstacle"); err != nil {
				return err
			}
		}
		return step.ForgetObstacles(by, pool)
	})
}
