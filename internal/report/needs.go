package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/task/service"
	"github.com/coppice-dev/coppice/supervisor"
)

// needs returns what waits for a person: problems first, then questions, parked tasks and mail. What
// is both a problem and a question is named once.
func (g *Gathered) needs() List[Need] {
	l := List[Need]{AtLeast: len(g.Parked) >= MaxListed, Shown: []Need{}}
	add := func(subject, state, why, command string, nextAt *time.Time) {
		if l.Total++; l.Total > MaxShown {
			return
		}
		n := Need{Subject: name(subject), State: name(state), Text: text(why), Command: text(command)}
		if nextAt != nil {
			n.NextAt = *nextAt
		}
		l.Shown = append(l.Shown, n)
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
	paused := map[string]bool{}
	for _, a := range st.Attention {
		if a.State == status.NeedsAnswer {
			continue // the question says so
		}
		paused[a.Path] = a.State == supervisor.Paused.String()
		add(a.Path, a.State, a.Reason, a.Command, a.NextAt)
	}
	asked := map[string]bool{}
	for _, q := range g.Questions {
		if paused[q.From] || strings.HasPrefix(q.From, service.PoolSender) {
			continue // a paused supervisor or pool is a problem
		}
		asked[strings.TrimPrefix(q.From, service.Sender)] = true
		add(q.ID, "question", fmt.Sprintf("%s asks: %s", q.From, q.Text), "coppice answer "+q.ID, nil)
	}
	for _, t := range g.Parked {
		if !asked[t.ID] {
			add(t.ID, string(t.Status), fmt.Sprintf("%s (%s)", t.Title, t.Reason), "coppice task show "+t.ID, nil)
		}
	}
	if n := st.Inbox.Mail; n > 0 {
		add("inbox", "mail", fmt.Sprintf("unread messages: %d", n), "coppice inbox", nil)
	}
	return l
}
