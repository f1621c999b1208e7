package web

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// shownTasks is the maximum number of tasks on a page.
const shownTasks = 500

// taskURL returns the page of a task.
func taskURL(id string) string { return (&url.URL{Path: "/tasks/" + id}).String() }

// taskTone returns the colour of a task.
func taskTone(t task.Task) status.Tone {
	switch {
	case t.Question != nil || t.Status == task.Parked || len(t.Stuck) > 0:
		return status.Ask
	case t.Status == task.InProgress:
		return status.Good
	case t.Status == task.Blocked || t.Status == task.Deferred || t.Paused || len(t.WaitsFor) > 0:
		return status.Busy
	case t.Status == task.Closed && t.Outcome != task.Completed:
		return status.Bad
	}
	return status.Quiet
}

// taskRow is a task of a list.
type taskRow struct {
	task.Task
	Tone status.Tone
	Why  string // what it waits for
}

func taskRowOf(t task.Task) taskRow {
	r := taskRow{Task: t, Tone: taskTone(t)}
	switch {
	case t.Question != nil:
		r.Why = t.Question.Text
	case t.Condition != nil:
		r.Why = "waits for the " + string(t.Condition.Kind) + " " + t.Condition.What
	case len(t.WaitsFor) > 0:
		r.Why = "waits for " + strings.Join(t.WaitsFor, ", ")
	case t.Paused:
		r.Why = "its pool is paused"
	default:
		r.Why = t.Reason
	}
	return r
}

// tasksData is what the page of tasks shows next to its parts.
type tasksData struct {
	View, Query, Pool string
	All               bool
	More              bool // there are more tasks than are shown
	Views             []tab
}

// tab is a way to show the same.
type tab struct {
	Label, URL string
	Current    bool
}

// board is a column of tasks.
type board struct {
	Status task.Status
	Tasks  []taskRow
}

// tasksPage shows tasks as a list, a board or a graph.
func (s *pages) tasksPage(ctx context.Context, q query) (*page, error) {
	d := tasksData{View: cmp.Or(q.get("view"), "list"), Query: q.get("q"), Pool: q.get("pool"), All: q.get("all") != ""}
	tasks, err := task.List.Call(ctx, s.Client, task.ListRequest{
		Filter: task.Filter{Pool: d.Pool, All: d.All}, Limit: shownTasks + 1,
	})
	if err != nil {
		return nil, err
	}
	paused, err := task.Pools.Call(ctx, s.Client, api.None{})
	if err != nil {
		return nil, err
	}
	if d.More = len(tasks) > shownTasks; d.More {
		tasks = tasks[:shownTasks]
	}
	var rows []taskRow
	for _, t := range tasks {
		if hasWords(t.ID+" "+t.Title+" "+string(t.Status)+" "+strings.Join(t.Labels, " "), d.Query) {
			rows = append(rows, taskRowOf(t))
		}
	}
	for _, label := range []string{"List", "Board", "Graph"} {
		view := strings.ToLower(label)
		v := parameters("view", view, "q", d.Query, "pool", d.Pool, "all", q.get("all"))
		d.Views = append(d.Views, tab{label, "/tasks?" + v.Encode(), view == d.View})
	}
	p := &page{title: "Tasks", nav: "tasks", template: "tasks", data: d}
	if p.parts, err = s.parts(map[string]any{"task-pools": poolsShown{paused, q.role == operator}}); err != nil {
		return nil, err
	}
	tasksPart := part{id: "tasks"}
	switch d.View {
	case "board":
		tasksPart.html, err = s.renderPart("tasks-board", boards(rows))
	case "graph":
		tasksPart.html, err = s.renderPart("tasks-graph", drawGraph(rows))
	default:
		tasksPart.html, err = s.renderPart("tasks-list", rows)
	}
	p.parts = append(p.parts, tasksPart)
	return p, err
}

// poolsShown are the pools of tasks that are paused.
type poolsShown struct {
	Pools    []pools.Pool
	Operator bool
}

// boards returns tasks by status.
func boards(rows []taskRow) (all []board) {
	for _, st := range task.Statuses() {
		b := board{Status: st}
		for _, r := range rows {
			if r.Status == st {
				b.Tasks = append(b.Tasks, r)
			}
		}
		if len(b.Tasks) > 0 || st != task.Closed {
			all = append(all, b)
		}
	}
	return all
}

// taskData is what the page of a task shows.
type taskData struct {
	taskRow
	Detail   task.Detail
	Attempts []attempt
	Operator bool
	Actions  []taskAction
}

// taskAction is an action on a task.
type taskAction struct{ Label, Action, Outcome string }

// attempt is an attempt at a task.
type attempt struct {
	task.Attempt
	Tone status.Tone
	Used string
}

// taskPage shows one task.
func (s *pages) taskPage(ctx context.Context, q query) (*page, error) {
	detail, err := task.Show.Call(ctx, s.Client, task.ShowRequest{ID: q.rest})
	if err != nil {
		return nil, err
	}
	d := taskData{taskRow: taskRowOf(detail.Task), Detail: detail, Operator: q.role == operator}
	for _, a := range slices.Backward(detail.Attempts) {
		one := attempt{Attempt: a, Tone: status.Bad}
		switch a.Outcome.Kind {
		case "completed", "decomposed":
			one.Tone = status.Good
		case "deferred", "blocked":
			one.Tone = status.Busy
		case "escalated":
			one.Tone = status.Ask
		}
		if a.Used != nil {
			one.Used = cost.TokensText(a.Used.Tokens, a.Used.UnknownTokens, 0) + " tokens, $" +
				cost.DollarsText(a.Used.Dollars, a.Used.UnknownDollars, 0)
		}
		d.Attempts = append(d.Attempts, one)
	}
	switch t := detail.Task; {
	case t.Question != nil:
		d.Actions = []taskAction{{"Approve", "approve", ""}, {"Reject", "reject", ""}}
	case t.Status == task.Closed:
		d.Actions = []taskAction{{"Open again", "reopen", ""}}
	case t.Status == task.InProgress:
		d.Actions = []taskAction{{"Take it back", "release", ""}}
	case t.Status == task.Parked, t.Status == task.Blocked, t.Status == task.Deferred:
		d.Actions = []taskAction{{"Retry", "retry", ""}}
	}
	if detail.Task.Status != task.Closed {
		d.Actions = append(d.Actions, taskAction{"Close as completed", "close", "completed"},
			taskAction{"Cancel", "close", "cancelled"})
	}
	p := &page{title: detail.Task.ID, nav: "tasks", template: "task"}
	p.parts, err = s.parts(map[string]any{"task-detail": d})
	return p, err
}
