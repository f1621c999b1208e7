// Package act has the commands that start, stop and drain agents.
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
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

func NewStart(s *command.Streams) *cobra.Command {
	return newAct(s, control.Start, "started", "Start agents that are stopped or held back", "")
}

func NewStop(s *command.Streams) *cobra.Command {
	return newAct(s, control.Stop, "stopped", "Stop agents until they are started by hand",
		"\nOnly coppice start starts them again; resume, restarts of the daemon and changes of the file do not.")
}

func NewRestart(s *command.Streams) *cobra.Command {
	return newAct(s, control.Restart, "restarted", "Stop agents and start them again", "\nIt counts as no failure.")
}

func NewReset(s *command.Streams) *cobra.Command {
	return newAct(s, control.Reset, "reset", "Reset failure counts, and start held agents", "")
}

func NewSuspend(s *command.Streams) *cobra.Command {
	return newAct(s, control.Suspend, "suspended", "Stop agents until they are resumed",
		"\nWithout a path, or with \".\", the whole project is: nothing starts until coppice\n"+
			"resume, also in later daemons.")
}

func NewResume(s *command.Streams) *cobra.Command {
	return newAct(s, control.Resume, "resumed", "Resume suspended or paused agents",
		"\nWithout a path, or with \".\", the whole project does. What was stopped or\n"+
			"suspended individually stays so.")
}

func newAct(s *command.Streams, action control.Action, done, short, more string) *cobra.Command {
	r := command.NewRemote(s)
	whole := action == control.Suspend || action == control.Resume // can apply to the project
	already := "is already running"
	if action == control.Stop || action == control.Suspend {
		already = "is already stopped"
	}
	use := " PATH..."
	if whole {
		use = " [PATH...]"
	}
	cmd := &cobra.Command{
		Use:   string(action) + use,
		Short: short,
		Long: short + ".\nA supervisor stands for all agents below it. The command returns when it is done.\nAn " +
			"agent that is already in that state is named, and is no error." + more,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !whole {
				return errors.New("the path of an agent or supervisor is missing; coppice tree shows them")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				paths = []string{"."}
			}
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				var failed []error
				for _, path := range paths {
					at := path
					if path == "." && whole {
						path, at = "the project is", "/"
					}
					acted, err := control.Act.Call(ctx, c, control.ActRequest{Path: at, Action: action})
					for _, other := range acted.Already {
						fmt.Fprintf(s.Out, "%s %s\n", plaintext.Line(other), already)
					}
					switch {
					case err == nil && acted.Changed > 0:
						fmt.Fprintf(s.Out, "%s %s\n", plaintext.Line(path), done)
					case err == nil && len(acted.Already) == 0:
						fmt.Fprintf(s.Out, "%s contains no agents\n", plaintext.Line(path))
					case err == nil:
					case ctx.Err() != nil, errors.Is(err, api.ErrDown), errors.Is(err, api.ErrStopping):
						return errors.Join(append(failed, err)...) // the others would fail for the same reason
					default:
						failed = append(failed, err)
					}
				}
				return errors.Join(failed...)
			})
		},
		ValidArgsFunction: r.CompletePath(true),
	}
	r.Flags(cmd)
	return cmd
}

func NewFire(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "fire PATH [TASK]",
		Short: "Start a run of a triggered agent (Aidefile)",
		Long: `Start a run of an agent with an Aidefile, as a trigger does, with TASK as its task.
The command returns when the run has begun. While the account of the agent or a budget is used
up, the run waits (coppice quota ls, coppice budget ls), and begins later by itself.

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
				return errors.New("the task is empty; omit it to fire without a task")
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
				fired, err := trigger.Fire.Call(ctx, c, req)
				if err != nil {
					return err
				}
				if fired.Waits != "" {
					fmt.Fprintf(s.Out, "%s fired; it waits: %s\n", plaintext.Line(args[0]), plaintext.Line(fired.Waits))
					return nil
				}
				fmt.Fprintf(s.Out, "%s fired\n", plaintext.Line(args[0]))
				return nil
			})
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	return cmd
}
