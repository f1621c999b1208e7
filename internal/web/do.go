package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/task"
)

// do carries out a form, and sends the browser back to its page, which says what was done.
func (s *Server) do(w http.ResponseWriter, r *http.Request, who visitor) {
	done, err := s.carryOutForm(r.Context(), r.PathValue("what"), r.PostForm)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.back(w, r, who, done)
}

// carryOutForm carries out a form, and returns what was done.
func (s *Server) carryOutForm(ctx context.Context, what string, form url.Values) (done string, err error) {
	name, action := form.Get("name"), form.Get("action")
	switch what {
	case "answer":
		var q question.Question
		q, err = question.Answer.Call(ctx, s.Client, question.AnswerRequest{
			ID: name, Answer: cmp.Or(form.Get("option"), form.Get("answer")), By: s.By,
		})
		done = fmt.Sprintf("%s of %s is answered: %s", q.ID, q.From, q.Answer)
	case "archive":
		_, err = mail.Archive.Call(ctx, s.Client, mail.IDs{IDs: []string{name}})
		done = name + " is archived"
	case "order":
		var result dispatch.ActResult
		result, err = dispatch.Act.Call(ctx, s.Client, dispatch.ActRequest{
			Name: name, Action: dispatch.Action(action), By: s.By,
		})
		done = fmt.Sprintf("order %s: %s", name, action)
		if result.Run != "" {
			done += ", run " + result.Run
		}
	case "fire":
		_, err = trigger.Fire.Call(ctx, s.Client, trigger.FireRequest{Path: name, Task: form.Get("task")})
		done = "a run of " + name + " has begun"
	case "task":
		var t task.Task
		t, err = task.Act.Call(ctx, s.Client, task.ActRequest{
			ID: name, Action: task.Action(action), Reason: form.Get("reason"), By: s.By,
			Outcome: task.Outcome(form.Get("outcome")),
		})
		done = fmt.Sprintf("task %s is %s", t.ID, t.Status)
	case "task-pool":
		_, err = task.ActOnPool.Call(ctx, s.Client, task.PoolRequest{
			Pool: name, Action: task.PoolAction(action), Reason: form.Get("reason"), By: s.By,
		})
		done = fmt.Sprintf("tasks of pool %s: %s", name, action)
	case "quota":
		_, err = quota.Resume.Call(ctx, s.Client, quota.ResumeRequest{Name: name})
		done = "quota " + name + " is resumed"
	case "budget":
		_, err = budget.RaiseBudget.Call(ctx, s.Client, budget.RaiseRequest{Name: name})
		done = "budget " + name + " allows as much again"
	case "reload":
		var r reconcile.Reloaded
		r, err = reconcile.Reload.Call(ctx, s.Client, api.None{})
		done = r.String()
	default:
		err = fmt.Errorf("%w: there is no %.40q", api.ErrNotFound, what)
	}
	return done, err
}
