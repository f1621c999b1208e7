package act

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func NewFire(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "fire PATH [TASK]",
		Short: "Start a run of a triggered agent (Aidefile)",
		Long: `Start a run of an agent with an Aidefile, as a trigger does, with TASK as its task.
The command returns when the run has begun.

No run begins while another is in progress, while a restart is pending, or if the agent was
stopped by hand; in the last two cases use coppice start. An agent that gave up runs once.`,
		Example: `  coppice fire uptime-monitor
  coppice fire writer 'Summarise what has changed since yesterday.'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("the path of an agent is missing; coppice ps lists them")
			case len(args) > 2:
				return fmt.Errorf("unexpected argument %q: %s takes one path and one task, which needs quotes",
					args[2], cmd.CommandPath())
			case len(args) == 2 && strings.TrimSpace(args[1]) == "":
				return errors.New("the task is empty; leave it out if there is nothing to say")
			case len(args) == 2 && len(args[1]) > trigger.MaxTask:
				return fmt.Errorf("the task has %d bytes, expected at most %d; write it to a file that it names",
					len(args[1]), trigger.MaxTask)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				req := trigger.FireRequest{Path: args[0]}
				if len(args) == 2 {
					req.Task = args[1]
				}
				if _, err := trigger.Fire.Call(ctx, c, req); err != nil {
					return err
				}
				fmt.Fprintf(s.Out, "%s fired\n", proc.Plain(args[0]))
				return nil
			})
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	return cmd
}
