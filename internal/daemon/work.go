package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/token"
)

// openWork reads the tasks.
func (c *Controller) openWork(ctx context.Context) (err error) {
	c.work, err = task.OpenQueue(ctx, task.Options{
		Store: c.opts.Store, Name: c.fleet().Tree.Root.Name, Logger: c.opts.Logger,
		MaxClaims: func() int { return c.fleet().Patrol.MaxClaims },
		Also:      func(e task.Event) []store.Op { return []store.Op{c.log.Op(taskEvent(e))} },
	})
	return err
}

// keepWork gives back what incarnations have claimed that are gone, now that it
// is known which live, and removes what is old.
func (c *Controller) keepWork() {
	c.untilDone("what agents that are gone had claimed cannot be given back yet", func(ctx context.Context) error {
		return c.work.Sweep(ctx, c.agents.IsPending)
	})
	c.background.run(c.purgeWork)
}

// purgeLook is how long it takes at most until what the file says of purges holds.
const purgeLook = 30 * time.Second

// purgeWork removes tasks that orders have made some time after their end, if
// the file says so. The first time is at once: no daemon may live for longer
// than the interval.
func (c *Controller) purgeWork(ctx context.Context) {
	var last time.Time
	for {
		p, wait := c.fleet().Patrol, purgeLook
		if p.Purges() {
			if time.Since(last) >= p.GCInterval {
				last = time.Now()
				if _, err := c.work.Purge(ctx, p.TTL); err != nil && ctx.Err() == nil {
					c.opts.Logger.Warn("tasks that have ended cannot be removed", "error", err)
				}
			}
			wait = min(wait, p.GCInterval)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// Pace of what has to be done and cannot be done yet.
const (
	minAgain = 50 * time.Millisecond
	maxAgain = 5 * time.Second
)

// untilDone does something in the background until it succeeds.
func (c *Controller) untilDone(trouble string, do func(context.Context) error) {
	c.background.run(func(ctx context.Context) {
		for pause := minAgain; ; pause = min(2*pause, maxAgain) {
			err := do(ctx)
			if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
				return
			}
			if pause == minAgain {
				c.opts.Logger.Warn(trouble, "error", err)
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	})
}

// beginWork lets an incarnation claim tasks.
func (c *Controller) beginWork(who api.Caller, secret string) {
	c.work.Begin(who.Path, task.Life{Incarnation: who.Incarnation, ID: token.ID(secret)})
	c.giveBack(who.Path)
}

// endWork gives back what an incarnation has claimed, with how it has failed, if
// it has.
func (c *Controller) endWork(who api.Caller, failure string) {
	c.work.End(who.Path, who.Incarnation, failure)
	c.giveBack(who.Path)
}

func (c *Controller) giveBack(path string) {
	c.untilDone("what an agent had claimed cannot be given back yet",
		func(ctx context.Context) error { return c.work.GiveBack(ctx, path) })
}

// taskEvent is the log's entry of what has happened to tasks.
func taskEvent(e task.Event) event.Event {
	t := e.Task
	entry := event.Event{Actor: e.By.String(), Path: e.By.Path, Incarnation: e.By.Incarnation}
	if e.Held != nil && e.Held.Incarnation > 0 {
		entry.Path, entry.Incarnation = e.Held.By, e.Held.Incarnation
	}
	what := fmt.Sprintf("%s (%s)", t.ID, mail.Title(t.Title))
	switch e.Kind {
	case task.Created:
		entry.Type, entry.Message = event.TaskCreated, fmt.Sprintf("%s was made", what)
	case task.Commented:
		entry.Type, entry.Message = event.TaskCommented, fmt.Sprintf("something was said about %s", what)
	case task.Claimed:
		entry.Type, entry.Message = event.TaskClaimed, fmt.Sprintf("%s was claimed", what)
	case task.Released:
		entry.Type, entry.Message = event.TaskReleased, fmt.Sprintf("%s is open again", what)
	case task.Ended:
		entry.Type, entry.Message = event.TaskClosed, fmt.Sprintf("%s was closed: %s", what, t.Outcome)
	case task.Withheld:
		entry.Type, entry.Message = event.TaskParked, fmt.Sprintf("%s is parked", what)
	case task.Reopened:
		entry.Type, entry.Message = event.TaskReopened, fmt.Sprintf("%s was opened again", what)
	case task.Imported:
		entry.Type, entry.Message = event.TaskImported, fmt.Sprintf("%d tasks were imported", e.Of)
		return entry.With(map[string]any{"count": e.Of})
	case task.Purged:
		entry.Type, entry.Message = event.TaskPurged, fmt.Sprintf("%d tasks that had ended long ago were removed", e.Of)
		return entry.With(map[string]any{"count": e.Of})
	default:
		entry.Type, entry.Message = event.TaskEdited, fmt.Sprintf("%s was changed", what)
	}
	if note := mail.Title(e.Note); note != "" {
		entry.Message += ": " + note
	}
	data := map[string]any{"id": t.ID, "title": mail.Title(t.Title), "status": t.Status, "priority": t.Priority,
		"type": t.Type}
	for name, value := range map[string]string{"pool": t.Pool, "assignee": t.Assignee, "parent": t.Parent,
		"origin": t.Origin, "outcome": string(t.Outcome)} {
		if value != "" {
			data[name] = value
		}
	}
	if len(t.Labels) > 0 {
		data["labels"] = t.Labels
	}
	return entry.With(data)
}

// worker is who asks for something about tasks; name is a person's.
func worker(who api.Caller, name string) task.Who {
	if who == (api.Caller{}) {
		return task.Who{Name: cmp.Or(strings.TrimSpace(name), task.People)}
	}
	return task.Who{Path: who.Path, Incarnation: who.Incarnation}
}

// writer is worker for what no claim is about. An order's run writes in the name of
// the order, so that it does not fire the order again.
func writer(ctx context.Context, who api.Caller, name string) task.Who {
	if by := api.OrderOf(ctx); by != "" {
		return task.Who{Name: order.PathOf(by)}
	}
	return worker(who, name)
}

// taskPools returns the pools whose tasks an agent does: the one it is an instance of, that
// of its name, and that of its path in the project.
func (c *Controller) taskPools(path string) []string {
	a := c.fleet().Agents[path]
	if a == nil {
		return nil
	}
	var all []string
	for _, name := range []string{a.Instance.Pool, a.Name, strings.TrimPrefix(path, c.fleet().Tree.Root.Name+"/")} {
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// assignee is the full path of an agent, or else the name of a person.
func (c *Controller) assignee(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	full := c.resolvePath(strings.Trim(name, "/"))
	switch {
	case c.fleet().Agents[full] != nil:
		return full, nil
	case c.fleet().Nodes[full] != nil:
		return "", fmt.Errorf("%w: %s is a supervisor, and a task is assigned to one agent, or "+
			"with --pool to all of a pool", api.ErrInvalid, full)
	}
	return name, nil
}

// AddTask is part of api.Tasks.
func (c *Controller) AddTask(ctx context.Context, who api.Caller, t api.TaskAdd) (task.Task, error) {
	d := t.Task
	var err error
	if d.Assignee, err = c.assignee(d.Assignee); err != nil {
		return task.Task{}, err
	}
	made, fresh, err := c.work.Create(ctx, writer(ctx, who, t.By), d)
	if err == nil && fresh {
		c.nudgeOf(made, who)
	}
	return made, refusedWork(err)
}

// nudgeOf tells an agent of a task that was assigned to it.
func (c *Controller) nudgeOf(t task.Task, by api.Caller) {
	if c.fleet().Agents[t.Assignee] != nil && t.Assignee != by.Path && t.Ready {
		c.background.run(func(ctx context.Context) {
			c.health.Nudge(ctx, t.Assignee, fmt.Sprintf("coppice: there is a task for you, %s. Please run: "+
				"coppice agent task show %[1]s", t.ID))
		})
	}
}

// refusedWork translates the errors of tasks, and those of a store that takes nothing.
func refusedWork(err error) error {
	switch {
	case store.Refused(err):
		return &apiError{err, api.ErrConflict}
	case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrUnknown):
		return &apiError{err, api.ErrStopping} // who asks the next daemon again gets the same
	}
	return translated(err)
}

// Tasks is part of api.Tasks.
func (c *Controller) Tasks(ctx context.Context, _ api.Caller, f task.Filter) (all []task.Task, err error) {
	if f, err = c.taskFilter(ctx, f); err == nil {
		all, err = c.work.List(ctx, f)
	}
	return all, refusedWork(err)
}

// CountTasks is part of api.Tasks.
func (c *Controller) CountTasks(ctx context.Context, _ api.Caller, f task.Filter) (n int, err error) {
	if f, err = c.taskFilter(ctx, f); err == nil {
		n, err = c.work.Count(ctx, f)
	}
	return n, refusedWork(err)
}

// taskFilter resolves the names in a filter.
func (c *Controller) taskFilter(ctx context.Context, f task.Filter) (_ task.Filter, err error) {
	if f.Assignee, err = c.assignee(f.Assignee); err != nil || f.Parent == "" {
		return f, err
	}
	parent, err := c.work.Find(ctx, f.Parent)
	f.Parent = parent.ID
	return f, err
}

// Task is part of api.Tasks.
func (c *Controller) Task(ctx context.Context, _ api.Caller, id string) (task.Detail, error) {
	d, err := c.work.Get(ctx, id)
	return d, refusedWork(err)
}

// EditTask is part of api.Tasks.
func (c *Controller) EditTask(ctx context.Context, who api.Caller, e api.TaskEdit) (task.Task, error) {
	if e.Edit.Assignee != nil {
		full, err := c.assignee(*e.Edit.Assignee)
		if err != nil {
			return task.Task{}, err
		}
		e.Edit.Assignee = &full
	}
	t, err := c.work.Edit(ctx, writer(ctx, who, e.By), e.ID, e.Edit)
	if err == nil && e.Edit.Assignee != nil {
		c.nudgeOf(t, who)
	}
	return t, refusedWork(err)
}

// CommentTask is part of api.Tasks.
func (c *Controller) CommentTask(ctx context.Context, who api.Caller, m api.TaskComment) (task.Task, error) {
	t, err := c.work.Comment(ctx, writer(ctx, who, m.By), m.ID, m.Text, m.Key)
	return t, refusedWork(err)
}

// ClaimTask is part of api.Tasks.
func (c *Controller) ClaimTask(ctx context.Context, who api.Caller, t api.TaskClaim) ([]task.Task, error) {
	if len(t.Pools) == 0 {
		t.Pools = c.taskPools(who.Path)
	}
	got, err := c.work.Claim(ctx, worker(who, t.By), task.Claiming{ID: t.ID, Pools: t.Pools, Any: t.Any, Key: t.Key})
	if errors.Is(err, task.ErrNothing) {
		return nil, nil
	}
	if err != nil {
		return nil, refusedWork(err)
	}
	return []task.Task{got}, nil
}

// AwaitTask is part of api.Tasks.
func (c *Controller) AwaitTask(ctx context.Context, who api.Caller, t api.TaskWait) (got []task.Task, err error) {
	if within := t.Timeout(); within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, within, task.ErrNothing)
		defer cancel()
	}
	if len(t.Pools) == 0 {
		t.Pools = c.taskPools(who.Path)
	}
	err = c.health.Await(ctx, who, func(ctx context.Context) error {
		ctx, stop := c.health.UntilDrained(ctx, who)
		defer stop()
		one, err := c.work.Await(ctx, worker(who, ""), task.Claiming{Pools: t.Pools, Any: t.Any, Key: t.Key})
		if err == nil {
			got = []task.Task{one}
		}
		return err
	})
	if errors.Is(err, task.ErrNothing) || errors.Is(err, health.ErrDraining) {
		return nil, nil
	}
	return got, refusedWork(err)
}

// ActOnTask is part of api.Tasks.
func (c *Controller) ActOnTask(ctx context.Context, who api.Caller, a api.TaskAct) (t task.Task, err error) {
	by := worker(who, a.By)
	switch a.Action {
	case api.ReleaseTask:
		t, err = c.work.Release(ctx, by, a.ID, a.Reason)
	case api.CloseTask:
		t, err = c.work.Finish(ctx, by, a.ID, task.Ending{Outcome: a.Outcome, Reason: a.Reason, Force: a.Force})
	case api.ReopenTask:
		t, err = c.work.Reopen(ctx, by, a.ID, a.Reason)
	case api.RetryTask:
		t, err = c.work.Retry(ctx, by, a.ID, a.Reason)
	default:
		err = fmt.Errorf("%w: action is %.100q, expected one of %v", api.ErrInvalid, a.Action, api.TaskActions())
	}
	return t, refusedWork(err)
}

// ImportTasks is part of api.Tasks.
func (c *Controller) ImportTasks(ctx context.Context, t api.TaskImport) (task.ImportReport, error) {
	beads := make([]*task.Bead, len(t.Beads))
	for i, line := range t.Beads {
		var err error
		if beads[i], err = task.ParseBead(line); err != nil {
			return task.ImportReport{}, refusedWork(fmt.Errorf("beads[%d]: %w", i, err))
		}
	}
	report, err := c.work.Import(ctx, writer(ctx, api.Caller{}, t.By), beads)
	return report, refusedWork(err)
}

// ExportTasks is part of api.Tasks.
func (c *Controller) ExportTasks(ctx context.Context, after string) (task.BeadPage, error) {
	p, err := c.work.Export(ctx, after)
	return p, refusedWork(err)
}

// Todo is part of api.Tasks.
func (c *Controller) Todo(ctx context.Context, who api.Caller) ([]task.Task, error) {
	h, err := c.work.Hook(ctx, worker(who, ""), c.taskPools(who.Path))
	return slices.Concat(h.Mine, h.Ready, h.Pool), refusedWork(err)
}

// workNotices are what there is to do for an agent.
func (c *Controller) workNotices(ctx context.Context, who api.Caller) ([]api.Notice, error) {
	h, err := c.work.Hook(ctx, worker(who, ""), c.taskPools(who.Path))
	if err != nil {
		return nil, refusedWork(err)
	}
	var all []api.Notice
	tell := func(tasks []task.Task, format string) {
		for _, t := range tasks {
			all = append(all, api.Notice{Kind: "task", ID: t.ID, Text: fmt.Sprintf(format, t.ID, mail.Title(t.Title))})
		}
	}
	tell(h.Mine, "%[1]s is yours and in progress: %[2]s. Run \"coppice agent task show %[1]s\" to read it, "+
		"\"coppice agent task close %[1]s\" when it is done.")
	tell(h.Ready, "%[1]s is assigned to you: %[2]s. Run \"coppice agent task claim %[1]s\" to begin it.")
	tell(h.Pool, "%[1]s is ready in your pool: %[2]s. Run \"coppice agent task claim\" to begin what comes first.")
	if h.More > 0 {
		all = append(all, api.Notice{Kind: "task", Text: fmt.Sprintf("%d more tasks are ready for you.", h.More)})
	}
	return all, nil
}
