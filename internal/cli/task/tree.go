package task

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/task"
)

func newTree(s *command.Streams, w worker) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "tree [ID]",
		Short: "Show tasks below the tasks of which they are parts",
		Long: `Show tasks, each below its parent. Without an ID, all that are not closed, and closed ones
above or below of these. With an ID, that task and what is below it.`,
		Args: command.AtMostOne("task"),
		RunE: func(_ *cobra.Command, args []string) error {
			var tasks []task.Task
			var top string
			err := w.look(func(ctx context.Context, c *api.Client) (err error) {
				if len(args) > 0 {
					d, err := task.Show.Call(ctx, c, task.ShowRequest{ID: args[0]})
					if err != nil {
						return err
					}
					top = d.Task.ID
				}
				tasks, err = task.ListAll(ctx, c, task.Filter{All: true}, 0)
				return err
			})
			if err != nil {
				return err
			}
			shown := forest(tasks, top, all)
			return s.Print(plainTasks(shown), func(p terminal.Paint, width int) []string {
				return treeLines(shown, width, p)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also tasks that are closed with all that is below them")
	s.JSONFlag(cmd, "an array of tasks, parents before their children")
	w.complete(cmd)
	return cmd
}

// branch is a task in a tree.
type branch struct {
	task.Task
	indent string
}

// forest returns tasks with their parents before them, in list order otherwise. top is the only root; empty for all.
// Closed tasks are left out together with all that is below them if that is closed, too, unless they are wanted.
func forest(tasks []task.Task, top string, closed bool) []branch {
	known := map[string]bool{}
	for _, t := range tasks {
		known[t.ID] = true
	}
	below := map[string][]task.Task{}
	var roots []task.Task
	for _, t := range tasks {
		switch {
		case top != "" && t.ID == top, top == "" && !known[t.Parent]:
			roots = append(roots, t)
		}
		if known[t.Parent] {
			below[t.Parent] = append(below[t.Parent], t)
		}
	}
	var look func(task.Task) bool // reports whether a task, or one below it, is not closed
	look = func(t task.Task) bool {
		return t.Status != task.Closed || slices.ContainsFunc(below[t.ID], look)
	}
	var out []branch
	var add func(all []task.Task, lines string, root bool)
	add = func(all []task.Task, lines string, root bool) {
		for i, t := range all {
			mark, next := "├─ ", "│  "
			if i == len(all)-1 {
				mark, next = "└─ ", "   "
			}
			if root {
				mark, next = "", ""
			}
			out = append(out, branch{t, lines + mark})
			add(below[t.ID], lines+next, false)
		}
	}
	var shown []task.Task
	for _, t := range roots {
		if look(t) || closed || top != "" {
			shown = append(shown, t)
		}
	}
	add(shown, "", true)
	return out
}

func plainTasks(all []branch) []task.Task {
	tasks := make([]task.Task, len(all))
	for i, b := range all {
		tasks[i] = b.Task
	}
	return tasks
}

func treeLines(all []branch, width int, p terminal.Paint) []string {
	now := time.Now()
	rows := make([][]string, len(all))
	for i, b := range all {
		rows[i] = []string{b.indent + terminal.Cell(b.ID), fmt.Sprint(b.Priority), taskState(b.Task),
			attempts(b.Task), terminal.Age(b.CreatedAt, now), terminal.Cell(strings.TrimSpace(taskTitle(b.Task)))}
	}
	return terminal.Table([]string{"ID", "P", "STATE", "ATTEMPTS", "AGE", "TITLE"}, rows, width, terminal.BoldHeader(p))
}

// attempts returns how often a task was tried.
func attempts(t task.Task) string {
	if t.Claims == 0 {
		return "-"
	}
	return fmt.Sprint(t.Claims)
}
