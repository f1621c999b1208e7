package order

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

func newRun(s *command.Streams, r *command.Remote) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run an order now",
		Long: `Fire an order, whatever its gates say, and print the id of the run. With --wait it
prints the output when the run has ended, and exits with 0 if it completed, 124 if it timed
out, and 1 if it failed.`,
		Example: `  coppice order run backup --wait`,
		RunE: func(_ *cobra.Command, args []string) error {
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				req := dispatch.ActRequest{Name: args[0], Action: dispatch.RunOrder, By: command.UserName()}
				done, err := dispatch.Act.Call(ctx, c, req)
				switch {
				case err != nil:
					return err
				case done.Queued:
					return s.PrintLine(done, plaintext.Line(args[0])+" is running; it runs once more after that")
				case !wait:
					return s.PrintLine(done, done.Run)
				}
				return awaitRun(ctx, s, c, done.Run)
			})
		},
	}
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait until it has ended")
	s.JSONFlag(cmd, "one object")
	return cmd
}

// awaitRun waits for the end of a run, even if another daemon takes over.
func awaitRun(ctx context.Context, s *command.Streams, c *api.Client, id string) error {
	var run dispatch.RunInfo
	err := api.Retry(ctx, command.AgentTimeout, func() (err error) {
		run, err = dispatch.GetRun.Call(ctx, c, dispatch.RunRequest{ID: id, Wait: true})
		return err
	})
	if err != nil {
		return err
	}
	if s.JSON {
		err = s.PrintJSON(run)
	} else {
		lines := run.Output
		for i := range lines {
			lines[i] = plaintext.Line(lines[i])
		}
		if run.Task != "" {
			lines = append(lines, "task "+plaintext.Line(run.Task))
		}
		if len(lines) > 0 {
			err = s.PrintLines(lines...)
		}
	}
	switch {
	case err != nil || run.Status == "completed":
		return err
	case run.Status == "timed out":
		return command.Exitf(command.ExitTimeout, "run %s of order %s has taken too long: %s", run.ID, run.Order,
			plaintext.Line(run.Error))
	}
	how := map[string]string{"failed": "has failed", "stopped": "was stopped",
		"interrupted": "was interrupted"}[run.Status]
	return fmt.Errorf("run %s of order %s %s: %s", run.ID, run.Order, cmp.Or(how, "is "+plaintext.Line(run.Status)),
		plaintext.Line(run.Error))
}

func newStop(s *command.Streams, r *command.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop NAME",
		Short: "Stop the runs of an order",
		Long: `Stop the runs of an order, and those that wait for another attempt. They are killed
after 5 s. Its gates may fire it again: see coppice order disable.`,
		RunE: func(_ *cobra.Command, args []string) error {
			req := dispatch.ActRequest{Name: args[0], Action: dispatch.StopOrder, By: command.UserName()}
			done, err := command.Call(r.Ask, dispatch.Act, req)
			if err != nil {
				return err
			}
			return s.PrintLine(map[string]any{"order": args[0], "stopped": done.Stopped},
				plaintext.Plural(done.Stopped, "run")+" asked to stop")
		},
	}
	s.JSONFlag(cmd, "an object with the number of runs")
	return cmd
}

func newSwitch(s *command.Streams, r *command.Remote, action dispatch.Action) *cobra.Command {
	on := action == dispatch.EnableOrder
	short := "Enable the gates of an order"
	if !on {
		short = "Disable the gates of an order"
	}
	cmd := &cobra.Command{
		Use:   string(action) + " NAME",
		Short: short,
		Long: short + `. This stays so across restarts of the daemon. coppice order run fires it in
any case.`,
		RunE: func(_ *cobra.Command, args []string) error {
			req := dispatch.ActRequest{Name: args[0], Action: action, By: command.UserName()}
			if _, err := command.Call(r.Ask, dispatch.Act, req); err != nil {
				return err
			}
			return s.PrintLine(map[string]any{"order": args[0], "enabled": on},
				plaintext.Line(args[0])+" "+string(action)+"d")
		},
	}
	s.JSONFlag(cmd, "an object that says whether it is enabled")
	return cmd
}
