package report

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/service"
	"github.com/coppice-dev/coppice/supervisor"
)

// Needs returns what waits for a person now, of a daemon or of the records of one that does not run: problems first,
// then questions, parked tasks and mail. What is both a problem and a question is named once. There are at most
// MaxListed parked tasks.
func Needs(ctx context.Context, c *api.Client) ([]Need, error) {
	var g Gathered
	if err := g.gatherNeeds(ctx, c); err != nil {
		return nil, err
	}
	return g.allNeeds(), nil
}

// gatherNeeds asks for what waits for a person.
func (g *Gathered) gatherNeeds(ctx context.Context, c *api.Client) (err error) {
	if g.Status, err = status.Get.Call(ctx, c, api.None{}); err != nil {
		return err
	}
	if g.Questions, err = question.List.Call(ctx, c, question.ListRequest{}); err != nil {
		return err
	}
	g.Parked, err = task.ListAll(ctx, c, task.Filter{Statuses: []string{string(task.Parked)}}, MaxListed)
	return err
}

// needs returns the beginning of the list of Needs.
func (g *Gathered) needs() List[Need] {
	all := g.allNeeds()
	return List[Need]{AtLeast: len(g.Parked) >= MaxListed, Total: len(all), Shown: all[:min(len(all), MaxShown)]}
}

func (g *Gathered) allNeeds() []Need {
	all := []Need{}
	add := func(subject, state, why, command string, nextAt *time.Time) *Need {
		n := Need{Subject: name(subject), State: name(state), Text: text(why), Command: text(command)}
		if nextAt != nil {
			n.NextAt = *nextAt
		}
		all = append(all, n)
		return &all[len(all)-1]
	}
	st := g.Status
	if st.Controller.PID == 0 {
		add("daemon", "not_running", "nothing is started or watched", "coppice up -d", nil)
	}
	if st.Suspended != "" {
		add("project", "suspended", st.Suspended, "coppice resume", nil)
	}
	if !st.Store.OK && st.Store.Error != "" {
		add("store", "failing", "it takes no writes: "+st.Store.Error, "coppice doctor", nil)
	}
	problems := map[string]bool{}
	for _, a := range st.Attention {
		if a.State == status.NeedsAnswer {
			continue // the question says so
		}
		problems[a.Path] = problems[a.Path] || asksItself(a)
		add(a.Path, a.State, a.Reason, a.Command, a.NextAt)
	}
	asked := map[string]bool{}
	for _, q := range g.Questions {
		// A paused supervisor or pool, a budget and an account are problems: "budget/a" is the sender of "budget a".
		if problems[q.From] || problems[strings.Replace(q.From, "/", " ", 1)] ||
			strings.HasPrefix(q.From, service.PoolSender) {
			continue
		}
		asked[strings.TrimPrefix(q.From, service.Sender)] = true
		add(q.ID, "question", fmt.Sprintf("%s asks: %s", q.From, q.Text), "coppice answer "+q.ID, nil).From =
			name(q.From)
	}
	for _, t := range g.Parked {
		if !asked[t.ID] {
			add(t.ID, string(t.Status), fmt.Sprintf("%s (%s)", t.Title, t.Reason), "coppice task show "+t.ID, nil)
		}
	}
	if n := st.Inbox.Mail; n > 0 {
		add("inbox", "mail", fmt.Sprintf("unread messages: %d", n), "coppice inbox", nil)
	}
	return all
}

// asksItself reports whether there is a question about a problem, which says no more than the problem does.
func asksItself(a status.Attention) bool {
	return a.State == supervisor.Paused.String() || strings.HasPrefix(a.Path, "budget ") ||
		strings.HasPrefix(a.Path, "quota ")
}
