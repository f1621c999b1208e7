package task

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
)

func newList(s *command.Streams, w worker) *cobra.Command {
	var f task.Filter
	var limit int
	var mine, count bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List open tasks in priority order",
		Example: "  " + w.command + " ls --ready --pool web\n  " + w.command +
			" ls --status closed --label bug --json\n  " +
			w.command + " ls --pool web --active --count",
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if limit < 0 {
				return command.Usagef("--limit is %d, expected a number from 0 up", limit)
			}
			if count && !mine {
				counted, err := command.Call(w.ask, task.Count, f)
				if err != nil {
					return err
				}
				n := counted.Count
				if limit > 0 {
					n = min(n, limit)
				}
				return s.PrintLines(fmt.Sprint(n))
			}
			var tasks []task.Task
			err := w.look(func(ctx context.Context, c *api.Client) (err error) {
				if mine {
					tasks, err = task.Todo.Call(ctx, c, api.None{})
				} else {
					tasks, err = task.ListAll(ctx, c, f, limit)
				}
				return err
			})
			if err != nil {
				return err
			}
			if count {
				return s.PrintLines(fmt.Sprint(len(tasks)))
			}
			return s.Print(tasks, func(p terminal.Paint, width int) []string {
				return taskLines(tasks, time.Now(), width, p)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.Statuses, "status", nil,
		"of this `STATUS`: open, in_progress, blocked, deferred, parked, closed; can be repeated")
	flags.BoolVar(&f.Ready, "ready", false, "only ready tasks")
	flags.BoolVar(&f.Active, "active", false, "only ready and claimed tasks")
	flags.BoolVar(&f.All, "all", false, "also closed tasks")
	flags.StringVar(&f.Pool, "pool", "", "of this `POOL`")
	flags.StringVarP(&f.Assignee, "assignee", "a", "", "assigned to, or claimed by, this agent or person, `WHO`")
	flags.StringSliceVarP(&f.Labels, "label", "l", nil, "with this `LABEL`; can be repeated")
	flags.StringVarP(&f.Type, "type", "t", "", "of this `TYPE`")
	flags.StringVar(&f.Parent, "parent", "", "children of the task of this `ID`")
	flags.IntVarP(&limit, "limit", "n", 0, "the first `N`; 0 for all")
	if w.agent {
		flags.BoolVar(&mine, "mine", false, "what this agent has claimed, and the first that it can claim")
		for _, other := range []string{"status", "ready", "all", "active", "pool", "assignee", "label", "type",
			"parent", "limit"} {
			cmd.MarkFlagsMutuallyExclusive("mine", other)
		}
	}
	flags.BoolVar(&count, "count", false, "print only the number of tasks, as for the check of a pool")
	for _, other := range []string{"status", "ready", "all"} {
		cmd.MarkFlagsMutuallyExclusive("active", other)
	}
	s.JSONFlag(cmd, "an array of objects")
	cmd.MarkFlagsMutuallyExclusive("count", "json")
	return cmd
}

func taskLines(tasks []task.Task, now time.Time, width int, p terminal.Paint) []string {
	rows := make([][]string, len(tasks))
	for i, t := range tasks {
		rows[i] = []string{terminal.Cell(t.ID), fmt.Sprint(t.Priority), taskState(t), terminal.Cell(taskFor(t)),
			terminal.Age(t.CreatedAt, now), terminal.Cell(taskTitle(t))}
	}
	return terminal.Table([]string{"ID", "P", "STATE", "FOR", "AGE", "TITLE"}, rows, width, terminal.BoldHeader(p))
}

// taskState returns the state of a task in one word.
func taskState(t task.Task) string {
	switch {
	case t.Ready:
		return "ready"
	case t.Paused:
		return "paused"
	case t.Status == task.Open:
		return "waits"
	case t.Status == task.Closed && t.Outcome != "" && t.Outcome != task.Completed:
		return plaintext.Line(string(t.Outcome))
	}
	return plaintext.Line(string(t.Status))
}

// taskTitle returns the title of a task, and the reason if it is parked.
func taskTitle(t task.Task) string {
	if t.Status == task.Parked {
		return t.Title + " (" + t.Reason + ")"
	}
	return t.Title
}

// taskFor returns the claimant of a task, or else its assignee or pool.
func taskFor(t task.Task) string {
	switch {
	case t.Claim != nil:
		return t.Claim.By
	case t.Assignee != "":
		return t.Assignee
	case t.Pool != "":
		return "pool " + t.Pool
	}
	return "-"
}

func newShow(s *command.Streams, w worker) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a task with its comments and children",
		Args:  oneTask(w),
		RunE: func(_ *cobra.Command, args []string) error {
			return command.Show(s, w.look, task.Show, task.ShowRequest{ID: args[0]},
				func(d task.Detail, p terminal.Paint, _ int) []string { return detailLines(d, time.Now(), p) })
		},
	}
	s.JSONFlag(cmd, "an object with task, text, comments and children")
	w.complete(cmd)
	return cmd
}

func detailLines(d task.Detail, now time.Time, p terminal.Paint) []string {
	t := d.Task
	lines := []string{p.Bold(terminal.Cell(t.ID)) + "  " + p.Bold(plaintext.Line(t.Title))}
	fact := func(name, value string) {
		if value != "" {
			lines = append(lines, p.Dim(fmt.Sprintf("%-11s", name))+plaintext.Line(value))
		}
	}
	at := func(t time.Time, by string) string {
		if t.IsZero() {
			return ""
		}
		return strings.TrimSuffix(terminal.Clock(t, now)+" by "+by, " by ")
	}
	fact("state", StateText(t, now))
	fact("priority", fmt.Sprint(t.Priority))
	fact("done when", t.DoneWhen)
	fact("fixes", t.Fixes)
	fact("mode", t.Mode)
	fact("type", t.Type)
	fact("labels", strings.Join(t.Labels, ", "))
	fact("pool", t.Pool)
	fact("assignee", t.Assignee)
	fact("parent", t.Parent)
	fact("children", strings.Join(d.Children, ", "))
	fact("depends on", strings.Join(t.DependsOn, ", "))
	if len(t.DependsOn) > 0 && t.IfDependencyFails != "" {
		fact("if one fails", string(t.IfDependencyFails))
	}
	for _, l := range t.Links {
		fact(l.Type, l.ID)
	}
	fact("origin", t.Origin)
	fact("created", at(t.CreatedAt, t.CreatedBy))
	fact("closed", at(t.ClosedAt, t.ClosedBy))
	fact("reason", t.Reason)
	if t.Claims > 1 {
		fact("claimed", fmt.Sprintf("%d times", t.Claims))
	}
	if t.FailedClaims > 0 {
		fact("failed", plaintext.Plural(t.FailedClaims, "claim"))
	}
	if t.MaxClaims > 0 {
		fact("max claims", fmt.Sprint(t.MaxClaims))
	}
	if t.Status == task.Parked && t.Question == nil {
		fact("next", "coppice task retry "+t.ID+" lets it be tried again")
	}
	if d.Gate != nil {
		fact("waits", show.GateText(*d.Gate, now))
	}
	if t.Question != nil {
		fact("asked", plaintext.Line(t.Question.Text))
		fact("next", fmt.Sprintf("coppice task approve %s, or coppice task reject %[1]s", t.ID))
	}
	for _, id := range t.Stuck {
		fact("stuck", id+" was not completed: coppice task reopen "+id+", or coppice task edit "+t.ID+
			" --if-dependency-fails continue")
	}
	if d.Text != "" {
		lines = append(append(lines, ""), terminal.PlainLines(d.Text)...)
	}
	if len(d.Attempts) > 0 {
		lines = append(append(lines, ""), attemptLines(d.Attempts, now, p)...)
	}
	for _, c := range d.Comments {
		lines = append(lines, "", p.Dim(plaintext.Line(cmp.Or(c.By, "unknown"))+", "+terminal.Clock(c.At, now)+":"))
		lines = append(lines, terminal.PlainLines(c.Text)...)
	}
	return lines
}

// StateText describes the state of a task, and what it waits for.
func StateText(t task.Task, now time.Time) string {
	switch {
	case t.Claim != nil && t.Claim.Incarnation > 0:
		return fmt.Sprintf("in progress at %s, incarnation %d, since %s", t.Claim.By, t.Claim.Incarnation,
			terminal.Clock(t.Claim.At, now))
	case t.Claim != nil:
		return fmt.Sprintf("in progress at %s since %s", t.Claim.By, terminal.Clock(t.Claim.At, now))
	case t.Ready:
		return "ready"
	case t.Paused:
		return "ready, but its pool is paused: coppice task resume " + plaintext.Line(t.Pool)
	case t.Decomposed && t.Status == task.Open && len(t.WaitsFor) > 0:
		return "divided, and waits for its subtasks: " + strings.Join(t.WaitsFor, ", ")
	case t.Status == task.Blocked && t.Condition != nil:
		return fmt.Sprintf("blocked until the %s: %s", t.Condition.Kind, plaintext.Line(t.Condition.What))
	case t.Status == task.Parked:
		return "parked: " + plaintext.Line(t.Reason)
	case t.Status == task.Closed:
		return "closed: " + plaintext.Line(string(cmp.Or(t.Outcome, task.Completed)))
	case t.Status == task.Deferred && !t.NotBefore.IsZero():
		return "deferred until " + terminal.Clock(t.NotBefore, now)
	case len(t.WaitsFor) > 0:
		return string(t.Status) + ", waits for " + strings.Join(t.WaitsFor, ", ")
	}
	return string(t.Status)
}
