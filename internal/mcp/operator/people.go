package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/task"
)

// maxQuestion bounds the text of a question in an answer, in bytes.
const maxQuestion = 4 << 10

type limitInput struct {
	Limit int `json:"limit"`
}

// openQuestion is a question that waits for a person.
type openQuestion struct {
	ID       string    `json:"id"`
	From     string    `json:"from"`
	At       time.Time `json:"at"`
	Text     string    `json:"text"`
	Options  []string  `json:"options,omitempty"`
	Default  string    `json:"default,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// letter is a message without its body.
type letter struct {
	ID      string    `json:"id"`
	From    string    `json:"from"`
	At      time.Time `json:"at"`
	Subject string    `json:"subject"`
	Bytes   int       `json:"bytes"`
	ReplyTo string    `json:"reply_to,omitempty"`
}

func getInbox(ctx context.Context, c *api.Client, in limitInput) (answer, error) {
	questions, err := question.List.Call(ctx, c, question.ListRequest{})
	if err != nil {
		return nil, err
	}
	messages, err := mail.List.Call(ctx, c, mail.ListRequest{})
	if err != nil {
		return nil, err
	}
	questions, moreQuestions := first(questions, in.Limit, "raise limit")
	messages, moreMail := first(messages, in.Limit, "raise limit")
	open := make([]openQuestion, len(questions))
	for i, q := range questions {
		open[i] = openQuestion{q.ID, q.From, q.At, plaintext.Cut(q.Text, maxQuestion), q.Options, q.Default, q.Deadline}
	}
	unread := make([]letter, len(messages))
	for i, m := range messages {
		unread[i] = letter{m.ID, m.From, m.At, m.Subject, m.Size, m.ReplyTo}
	}
	return answer{
		{"note", fromAgents}, {"questions", open}, {"more_questions", moreQuestions}, {"mail", unread},
		{"more_mail", moreMail},
	}, nil
}

type tasksInput struct {
	Statuses []string `json:"statuses"`
	Pool     string   `json:"pool"`
	Assignee string   `json:"assignee"`
	Ready    bool     `json:"ready"`
	Limit    int      `json:"limit"`
}

// taskRow is a row of a list of tasks.
type taskRow struct {
	ID        string       `json:"id"`
	Title     string       `json:"title"`
	Status    task.Status  `json:"status"`
	Outcome   task.Outcome `json:"outcome,omitempty"`
	Priority  int          `json:"priority"`
	Pool      string       `json:"pool,omitempty"`
	Assignee  string       `json:"assignee,omitempty"`
	ClaimedBy string       `json:"claimed_by,omitempty"`
	Ready     bool         `json:"ready,omitempty"`
	Paused    bool         `json:"pool_paused,omitempty"`
	WaitsFor  []string     `json:"waits_for,omitempty"`
	Question  string       `json:"question,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	UpdatedAt time.Time    `json:"updated_at"`
}

func taskOf(t task.Task) taskRow {
	row := taskRow{
		ID: t.ID, Title: t.Title, Status: t.Status, Outcome: t.Outcome, Priority: t.Priority, Pool: t.Pool,
		Assignee: t.Assignee, Ready: t.Ready, Paused: t.Paused, WaitsFor: t.WaitsFor, Reason: t.Reason,
		UpdatedAt: t.UpdatedAt,
	}
	if t.Claim != nil {
		row.ClaimedBy = fmt.Sprintf("%s#%d", t.Claim.By, t.Claim.Incarnation)
	}
	if t.Question != nil {
		row.Question = t.Question.Text
	}
	return row
}

func listTasks(ctx context.Context, c *api.Client, in tasksInput) (answer, error) {
	f := task.Filter{Statuses: in.Statuses, Pool: in.Pool, Assignee: in.Assignee, Ready: in.Ready}
	counted, err := task.Count.Call(ctx, c, f)
	if err != nil {
		return nil, err
	}
	if in.Limit == 0 {
		in.Limit = defaultRows
	}
	tasks, err := task.List.Call(ctx, c, task.ListRequest{Filter: f, Limit: uint64(in.Limit)})
	if err != nil {
		return nil, err
	}
	all := make([]taskRow, len(tasks))
	for i, t := range tasks {
		all[i] = taskOf(t)
	}
	more := ""
	if n := counted.Count - len(all); n > 0 {
		more = fmt.Sprintf("and %d more; narrow them, or raise limit", n)
	}
	return answer{{"note", fromAgents}, {"tasks", all}, {"more", more}}, nil
}

type idInput struct {
	ID string `json:"id"`
}

// maxNotes bounds the comments and the attempts of a task in an answer.
const maxNotes = 10

func showTask(ctx context.Context, c *api.Client, in idInput) (answer, error) {
	d, err := task.Show.Call(ctx, c, task.ShowRequest{ID: in.ID})
	if err != nil {
		return nil, err
	}
	more := ""
	if n, m := len(d.Comments)-maxNotes, len(d.Attempts)-maxNotes; n > 0 || m > 0 {
		d.Comments, d.Attempts = d.Comments[max(0, n):], d.Attempts[max(0, m):]
		more = fmt.Sprintf("%d comments and %d attempts before these; coppice task show has all", max(0, n), max(0, m))
	}
	for i := range d.Comments {
		d.Comments[i].Text = plaintext.Cut(d.Comments[i].Text, maxQuestion)
	}
	return answer{{"note", fromAgents}, {"more", more}, {"detail", d}}, nil
}
