// Package pipeline has the commands about pipelines.
package pipeline

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	clitask "github.com/coppice-dev/coppice/internal/cli/task"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/pipeline/workers"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
)

// New returns the pipeline commands.
func New(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Show, pause and resume pipelines",
		Long: `Show, pause and resume pipelines. A pipeline is an agent with [agent.pipeline] in
coppice.toml, or a pool of them. Its workers take tasks through fixed stages to the merged
change.`,
	}
	cmd.AddCommand(newList(s, r), newShow(s, r))
	cmd.AddCommand(newActs(s, r)...)
	for _, sub := range cmd.Commands() {
		r.Flags(sub)
		if sub.Name() == "ls" {
			sub.ValidArgsFunction = cobra.NoFileCompletions
		} else {
			sub.Args = command.One("pipeline", "the name of a pipeline is missing; coppice pipeline ls lists them")
			sub.ValidArgsFunction = r.Complete(completePipeline)
		}
	}
	return cmd
}

func completePipeline(ctx context.Context, c *api.Client, args []string) (names []cobra.Completion, _ error) {
	if len(args) > 0 {
		return nil, nil
	}
	all, err := workers.List.Call(ctx, c, api.None{})
	for _, i := range all {
		names = append(names, cobra.CompletionWithDesc(i.Name, plaintext.Line(string(i.Tasks.Pool.State))))
	}
	return names, err
}

func newList(s *command.Streams, r *command.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List all pipelines",
		Long: `List all pipelines: whether their tasks are claimed, how many workers make an attempt,
and how many tasks are ready, in progress, and wait for a person.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return command.Show(s, r.Look, workers.List, api.None{}, listLines)
		},
	}
	s.JSONFlag(cmd, "an array of objects")
	return cmd
}

func listLines(all []workers.Info, p terminal.Paint, width int) []string {
	if len(all) == 0 {
		return []string{"no pipelines; [agent.pipeline] in coppice.toml makes an agent one"}
	}
	rows := make([][]string, len(all))
	for i, one := range all {
		rows[i] = []string{
			terminal.Cell(one.Name), terminal.Cell(string(one.Tasks.Pool.State)), atWork(one),
			fmt.Sprint(one.Tasks.Ready), fmt.Sprint(one.Tasks.InProgress), fmt.Sprint(one.Tasks.ForPerson),
			terminal.Cell(one.Mode), terminal.Cell(branchText(one)),
		}
	}
	header := []string{"NAME", "TASKS", "AT WORK", "READY", "IN PROGRESS", "FOR YOU", "MODE", "BRANCH"}
	return terminal.Table(header, rows, width, terminal.BoldHeader(p))
}

func atWork(i workers.Info) string { return fmt.Sprintf("%d of %d", i.AtWork, i.Workers) }

func branchText(i workers.Info) string { return cmp.Or(i.Branch, "checked out") }

// newActs returns the commands that pause and resume the tasks of a pipeline.
func newActs(s *command.Streams, r *command.Remote) []*cobra.Command {
	var reason string
	act := func(action task.PoolAction, short, long string) *cobra.Command {
		cmd := &cobra.Command{
			Use: string(action) + " NAME", Short: short, Long: long,
			RunE: func(_ *cobra.Command, args []string) error {
				d, err := command.Call(r.Ask, workers.Get, workers.Name{Name: args[0]})
				if err != nil {
					return err
				}
				return clitask.ActOnPool(s, r.Ask, task.PoolRequest{
					Pool: d.Pipeline.Tasks.Pool.Name, Action: action, Reason: reason, By: command.UserName(),
				})
			},
		}
		s.JSONFlag(cmd, "the pool of its tasks as an object")
		return cmd
	}
	pause := act(task.PausePool, "Pause the tasks of a pipeline", `Let no worker of a pipeline claim a task of its pool until it is resumed. Attempts that
go on are not interrupted. It is coppice task pause with the pool of the pipeline, which
other agents may share.`)
	pause.Flags().StringVarP(&reason, "reason", "r", "", "the reason `WHY`, for others")
	return []*cobra.Command{pause, act(task.ResumePool, "Resume the tasks of a pipeline",
		`Let the workers of a pipeline claim tasks of its pool again. If the pool was paused because
tasks have failed, one task is tried first, and how that ends decides. It is coppice task
resume with the pool of the pipeline.`)}
}
