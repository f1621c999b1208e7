package controller

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
	taskqueue "github.com/coppice-dev/coppice/internal/task/queue"
)

// A daemon asks about a task that was escalated before the last one was killed, which had not asked yet.
func TestAsksAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, db := newStage(), memory.New()
		q, err := taskqueue.Open(t.Context(), taskqueue.Options{Store: db, Name: "t", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ann := task.Actor{Name: "ann"}
		made, _, err := q.Create(t.Context(), ann, task.Draft{Title: "x"})
		if err == nil {
			_, err = q.Change(t.Context(), func(s *task.Step) (task.Task, error) {
				return s.Claim(ann, task.Claiming{ID: made.ID})
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		o, err := outcome.New(outcome.Report{Kind: outcome.Escalated, Question: "May I?", Context: &outcome.Context{
			Approach: "x", Obstacle: outcome.Obstacle{Kind: outcome.GuardDenied, Description: "y"}}})
		if err == nil {
			_, err = q.Report(t.Context(), ann, made.ID, o)
		}
		if err != nil {
			t.Fatal(err)
		}
		q.Close()
		p := raise(t, s, db, treeOf(t, "a"))
		synctest.Wait()
		if all := p.questions.List("", false); len(all) != 1 || all[0].From != "task/"+made.ID {
			t.Errorf("%+v", all)
		}
		p.close()
	})
}
