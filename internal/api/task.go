package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/task"
)

// Tasks is the work that there is, see package task. Who asks is an agent, or a
// person if it is the zero Caller; what a person is called is in the request.
// Errors: ErrNotFound, ErrInvalid, ErrConflict; ErrStale for an incarnation that is over.
type Tasks interface {
	AddTask(ctx context.Context, who Caller, t TaskAdd) (task.Task, error)
	// Tasks lists at most as many as a page holds, which is f.Limit.
	Tasks(ctx context.Context, who Caller, f task.Filter) ([]task.Task, error)
	// CountTasks is how many tasks a filter selects.
	CountTasks(ctx context.Context, who Caller, f task.Filter) (int, error)
	// Todo is what an agent has claimed, and the first that it can claim.
	Todo(ctx context.Context, who Caller) ([]task.Task, error)
	Task(ctx context.Context, who Caller, id string) (task.Detail, error)
	EditTask(ctx context.Context, who Caller, e TaskEdit) (task.Task, error)
	CommentTask(ctx context.Context, who Caller, c TaskComment) (task.Task, error)
	// ClaimTask returns the task that was claimed; none if nothing is ready.
	ClaimTask(ctx context.Context, who Caller, c TaskClaim) ([]task.Task, error)
	// AwaitTask claims as ClaimTask does, and waits until something is ready. It
	// returns none when the time is over, or the agent is asked to finish.
	AwaitTask(ctx context.Context, who Caller, w TaskWait) ([]task.Task, error)
	ActOnTask(ctx context.Context, who Caller, a TaskAct) (task.Task, error)
	// ImportTasks and ExportTasks are for people.
	ImportTasks(ctx context.Context, t TaskImport) (task.ImportReport, error)
	ExportTasks(ctx context.Context, after string) (task.BeadPage, error)
}

// TaskCount is how many tasks there are.
type TaskCount struct {
	Count int `json:"count"`
}

// TaskAdd is a task that is to be made.
type TaskAdd struct {
	Task task.Draft `json:"task"`
	By   string     `json:"by,omitempty"` // name of the person; not for agents
}

// TaskEdit says what is to be different about a task.
type TaskEdit struct {
	ID   string    `json:"id"`
	Edit task.Edit `json:"edit"`
	By   string    `json:"by,omitempty"`
}

// TaskComment is something to be said about a task.
type TaskComment struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Key  string `json:"key,omitempty"` // what is said again under the same key is said once
	By   string `json:"by,omitempty"`
}

// TaskClaim says which task somebody wants to do: that of the ID; or else the
// first one that is ready, of those assigned to who asks, then of the pools.
type TaskClaim struct {
	ID    string   `json:"id,omitempty"`
	Pools []string `json:"pools,omitempty"` // an agent's own if there are none
	Any   bool     `json:"any,omitempty"`   // if there is none of those, one that is of no pool and assigned to nobody
	Key   string   `json:"key,omitempty"`   // the same again gets the same task
	By    string   `json:"by,omitempty"`
}

// TaskWait is a claim of an agent that waits until a task is ready.
type TaskWait struct {
	Pools []string `json:"pools,omitempty"` // as in TaskClaim
	Any   bool     `json:"any,omitempty"`
	Key   string   `json:"key,omitempty"`
	// Within is how many seconds it waits at most; 0: as long as the agent lives.
	Within float64 `json:"within_seconds,omitempty"`
}

// Timeout is how long it waits at most, 0 for no limit.
func (w TaskWait) Timeout() time.Duration { return time.Duration(w.Within * float64(time.Second)) }

// TaskAction is what ActOnTask does.
type TaskAction string

// All of them.
const (
	ReleaseTask TaskAction = "release"
	CloseTask   TaskAction = "close"
	ReopenTask  TaskAction = "reopen"
	RetryTask   TaskAction = "retry"
)

// TaskActions are all there are.
func TaskActions() []TaskAction {
	return []TaskAction{ReleaseTask, CloseTask, ReopenTask, RetryTask}
}

// TaskAct does something to a task.
type TaskAct struct {
	ID      string       `json:"id"`
	Action  TaskAction   `json:"action"`
	Reason  string       `json:"reason,omitempty"`
	Outcome task.Outcome `json:"outcome,omitempty"` // of close
	Force   bool         `json:"force,omitempty"`   // of close: though it has children that are not closed
	By      string       `json:"by,omitempty"`
}

// TaskImport is beads that are to become tasks, what is waited for first.
type TaskImport struct {
	Beads []json.RawMessage `json:"beads"` // objects, at most task.MaxImport of them
	By    string            `json:"by,omitempty"`
}

// taskPage is how many tasks one answer lists at most.
const taskPage = 5000

// Bounds on requests with texts in them, in bytes: in JSON a byte may take six.
const (
	maxTask   = 6*task.MaxText + 64<<10
	maxRemark = 6*task.MaxComment + 8<<10
	maxBeads  = task.MaxImportBytes + task.MaxBead + 64<<10
)

func taskRoutes() []route {
	filter := []param{
		{name: "status", kind: "string", repeated: true}, {name: "pool", kind: "string"},
		{name: "assignee", kind: "string"},
		{name: "label", kind: "string", repeated: true}, {name: "type", kind: "string"},
		{name: "parent", kind: "string"},
		{name: "ready", kind: "boolean"}, {name: "active", kind: "boolean"}, {name: "all", kind: "boolean"},
	}
	page := []param{{name: "limit", kind: "integer"}, {name: "after", kind: "string"}}
	id := []param{{name: "id", kind: "string", required: true}}
	routes := []route{
		{method: "POST", path: "/v1/tasks/import", body: TaskImport{}, maxBody: maxBeads, answer: task.ImportReport{},
			serve: (*call).importTasks},
		{method: "GET", path: "/v1/tasks/export", params: []param{{name: "after", kind: "string"}},
			answer: task.BeadPage{}, serve: (*call).exportTasks},
	}
	routes = append(routes,
		route{method: "GET", path: agentBase + "/todo", agent: true, answer: []task.Task{}, serve: (*call).todo},
		route{method: "POST", path: agentBase + "/task/await", agent: true, body: TaskWait{}, stream: true,
			answer: []task.Task{}, serve: (*call).awaitTask})
	for _, base := range []string{"/v1", agentBase} {
		agent := base == agentBase
		routes = append(routes,
			route{method: "GET", path: base + "/tasks", agent: agent, params: slices.Concat(filter, page),
				answer: []task.Task{}, serve: (*call).tasks},
			route{method: "GET", path: base + "/tasks/count", agent: agent, params: filter, answer: TaskCount{},
				serve: (*call).countTasks},
			route{method: "POST", path: base + "/tasks", agent: agent, body: TaskAdd{}, maxBody: maxTask,
				answer: task.Task{}, serve: (*call).addTask},
			route{method: "GET", path: base + "/task", agent: agent, params: id, answer: task.Detail{},
				serve: (*call).task},
			route{method: "POST", path: base + "/task/edit", agent: agent, body: TaskEdit{}, maxBody: maxTask,
				answer: task.Task{}, serve: (*call).editTask},
			route{method: "POST", path: base + "/task/comment", agent: agent, body: TaskComment{}, maxBody: maxRemark,
				answer: task.Task{}, serve: (*call).commentTask},
			route{method: "POST", path: base + "/task/claim", agent: agent, body: TaskClaim{}, answer: []task.Task{},
				serve: (*call).claimTask},
			route{method: "POST", path: base + "/task/act", agent: agent, body: TaskAct{}, answer: task.Task{},
				serve: (*call).actOnTask})
	}
	return routes
}

// taskFilter reads what selects tasks.
func (c *call) taskFilter() task.Filter {
	f := task.Filter{
		Pool: c.query.text("pool"), Assignee: c.query.text("assignee"), Labels: c.query.all("label"),
		Type:   c.query.text("type"),
		Parent: c.query.text("parent"), Ready: c.query.flag("ready"), Active: c.query.flag("active"),
		All: c.query.flag("all"),
	}
	for _, s := range c.query.all("status") {
		f.Statuses = append(f.Statuses, task.Status(s))
	}
	return f
}

func (c *call) countTasks() error {
	n, err := c.service.CountTasks(c.r.Context(), c.caller, c.taskFilter())
	if err != nil {
		return err
	}
	return c.answer(TaskCount{n})
}

func (c *call) tasks() error {
	f := c.taskFilter()
	f.After, f.Limit = c.query.text("after"), int(min(c.query.number("limit", taskPage), taskPage))
	if f.Limit == 0 {
		f.Limit = taskPage
	}
	all, err := c.service.Tasks(c.r.Context(), c.caller, f)
	if err != nil {
		return err
	}
	return c.answer(orEmpty(all))
}

func (c *call) todo() error {
	all, err := c.service.Todo(c.r.Context(), c.caller)
	if err != nil {
		return err
	}
	return c.answer(orEmpty(all))
}

func (c *call) task() error {
	d, err := c.service.Task(c.r.Context(), c.caller, c.query.text("id"))
	if err != nil {
		return err
	}
	d.Comments, d.Children = orEmpty(d.Comments), orEmpty(d.Children)
	return c.answer(d)
}

// asked reads the body of a request, does what it says, and answers with what comes of it.
func asked[Q, A any](c *call, do func(context.Context, Q) (A, error)) error {
	var req Q
	if err := c.body(&req); err != nil {
		return err
	}
	answer, err := do(c.r.Context(), req)
	if err != nil {
		return err
	}
	return c.answer(answer)
}

func (c *call) addTask() error {
	return asked(c, func(ctx context.Context, t TaskAdd) (task.Task,
		error) {
		return c.service.AddTask(ctx, c.caller, t)
	})
}

func (c *call) editTask() error {
	return asked(c, func(ctx context.Context, e TaskEdit) (task.Task,
		error) {
		return c.service.EditTask(ctx, c.caller, e)
	})
}

func (c *call) commentTask() error {
	return asked(c, func(ctx context.Context, m TaskComment) (task.Task, error) {
		return c.service.CommentTask(ctx, c.caller, m)
	})
}

func (c *call) claimTask() error {
	return asked(c, func(ctx context.Context, t TaskClaim) ([]task.Task, error) {
		got, err := c.service.ClaimTask(ctx, c.caller, t)
		return orEmpty(got), err
	})
}

// awaitTask is a stream of one message, so that both sides see each other live
// while they wait.
func (c *call) awaitTask() error {
	var req TaskWait
	if err := c.body(&req); err != nil {
		return err
	}
	if most := math.MaxInt64 / float64(time.Second); !(req.Within >= 0 && req.Within < most) {
		return fmt.Errorf("%w: within_seconds is %v, expected 0 to %.0f", ErrInvalid, req.Within, most)
	}
	return stream(c, func(ctx context.Context) iter.Seq2[[]task.Task, error] {
		return func(yield func([]task.Task, error) bool) {
			got, err := c.service.AwaitTask(ctx, c.caller, req)
			yield(orEmpty(got), err)
		}
	}, nil)
}

func (c *call) actOnTask() error {
	return asked(c, func(ctx context.Context, a TaskAct) (task.Task, error) {
		if !slices.Contains(TaskActions(), a.Action) {
			return task.Task{}, fmt.Errorf("%w: action is %.100q, expected one of %v", ErrInvalid, a.Action,
				TaskActions())
		}
		return c.service.ActOnTask(ctx, c.caller, a)
	})
}

func (c *call) importTasks() error {
	return asked(c, func(ctx context.Context, t TaskImport) (task.ImportReport, error) {
		if len(t.Beads) == 0 || len(t.Beads) > task.MaxImport {
			return task.ImportReport{}, fmt.Errorf("%w: there are %d beads, expected 1 to %d", ErrInvalid,
				len(t.Beads), task.MaxImport)
		}
		return c.service.ImportTasks(ctx, t)
	})
}

func (c *call) exportTasks() error {
	p, err := c.service.ExportTasks(c.r.Context(), c.query.text("after"))
	if err != nil {
		return err
	}
	p.Beads = orEmpty(p.Beads)
	return c.answer(p)
}

// AddTask makes a task and returns when it is durable.
func (c *Client) AddTask(ctx context.Context, t TaskAdd) (made task.Task, err error) {
	return made, c.call(ctx, "POST", c.own("/tasks"), nil, t, &made)
}

// filterQuery is what selects tasks, as a query.
func filterQuery(f task.Filter) url.Values {
	query := url.Values{"label": f.Labels}
	for _, s := range f.Statuses {
		query.Add("status", string(s))
	}
	for name, value := range map[string]string{"pool": f.Pool, "assignee": f.Assignee, "type": f.Type,
		"parent": f.Parent} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, value := range map[string]bool{"ready": f.Ready, "active": f.Active, "all": f.All} {
		query.Set(name, strconv.FormatBool(value))
	}
	return query
}

// CountTasks is how many tasks a filter selects, without regard to its Limit.
func (c *Client) CountTasks(ctx context.Context, f task.Filter) (int, error) {
	var n TaskCount
	err := c.call(ctx, "GET", c.own("/tasks/count"), filterQuery(f), nil, &n)
	return n.Count, err
}

// Tasks lists tasks, what comes first first, page by page: where they change
// meanwhile, each is as it was at some moment.
func (c *Client) Tasks(ctx context.Context, f task.Filter) (all []task.Task, err error) {
	query := filterQuery(f)
	for after := f.After; ; {
		most := taskPage
		if f.Limit > 0 {
			most = min(most, f.Limit-len(all))
		}
		query.Set("limit", strconv.Itoa(most))
		if after != "" {
			query.Set("after", after)
		}
		var page []task.Task
		if err := c.call(ctx, "GET", c.own("/tasks"), query, nil, &page); err != nil {
			return nil, err
		}
		if all == nil {
			all = page
		} else {
			all = append(all, page...)
		}
		if len(page) < most || len(all) == f.Limit {
			return all, nil
		}
		after = page[len(page)-1].ID
	}
}

// Todo lists what the agent whose client this is has claimed, and then the first
// that it can claim.
func (c *Client) Todo(ctx context.Context) (all []task.Task, err error) {
	return all, c.call(ctx, "GET", "/agent/todo", nil, nil, &all)
}

// Task returns all there is of a task.
func (c *Client) Task(ctx context.Context, id string) (d task.Detail, err error) {
	return d, c.call(ctx, "GET", c.own("/task"), url.Values{"id": {id}}, nil, &d)
}

// EditTask changes a task.
func (c *Client) EditTask(ctx context.Context, e TaskEdit) (t task.Task, err error) {
	return t, c.call(ctx, "POST", c.own("/task/edit"), nil, e, &t)
}

// CommentTask says something about a task.
func (c *Client) CommentTask(ctx context.Context, m TaskComment) (t task.Task, err error) {
	return t, c.call(ctx, "POST", c.own("/task/comment"), nil, m, &t)
}

// ClaimTask claims a task, which it returns; none if nothing is ready.
func (c *Client) ClaimTask(ctx context.Context, t TaskClaim) (got []task.Task, err error) {
	return got, c.call(ctx, "POST", c.own("/task/claim"), nil, t, &got)
}

// AwaitTask claims a task of an agent, and waits until there is one; none if the
// time is over or the agent is asked to finish. It fails with ErrLost, ErrDown or
// ErrStopping where the daemon goes away, and may be called again then.
func (c *Client) AwaitTask(ctx context.Context, w TaskWait) (got []task.Task, err error) {
	req, err := c.request(ctx, "POST", "/agent/task/await", nil, w)
	if err != nil {
		return nil, err
	}
	for m, err := range c.stream(req, func() {}) {
		if err == nil {
			err = json.Unmarshal(m.data, &got)
		}
		return got, err
	}
	return nil, ErrLost
}

// ActOnTask does something to a task.
func (c *Client) ActOnTask(ctx context.Context, a TaskAct) (t task.Task, err error) {
	return t, c.call(ctx, "POST", c.own("/task/act"), nil, a, &t)
}

// ImportTasks makes tasks of beads.
func (c *Client) ImportTasks(ctx context.Context, t TaskImport) (r task.ImportReport, err error) {
	return r, c.call(ctx, "POST", "/tasks/import", nil, t, &r)
}

// ExportTasks returns some tasks as beads: those after one of them, "" for the first.
func (c *Client) ExportTasks(ctx context.Context, after string) (p task.BeadPage, err error) {
	query := url.Values{}
	if after != "" {
		query.Set("after", after)
	}
	return p, c.call(ctx, "GET", "/tasks/export", query, nil, &p)
}
