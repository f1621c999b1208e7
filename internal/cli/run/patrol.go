package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

func NewPatrol(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var dry bool
	cmd := &cobra.Command{
		Use:   "patrol",
		Short: "Reconcile running agents with the file now",
		Long: `Compare the running agents with the file now, and start, stop or restart what differs.
The daemon does this by itself after each event, and every patrol_interval.

It prints how many instances each pool wants by the last result of its check, and then each
action and each wait with its reason. It starts the checks again without waiting for them;
--dry-run does not. If the file has errors, the exit code is 78, and agents are compared with
its last valid version.`,
		Example:           "  coppice patrol --dry-run",
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				round, err := pool.Patrol.Call(ctx, c, pool.PatrolRequest{DryRun: dry})
				if err != nil {
					return err
				}
				return errors.Join(printRound(s, round), refusedFile(ctx, c))
			})
		},
	}
	r.Flags(cmd)
	s.JSONFlag(cmd, "one object")
	cmd.Flags().BoolVarP(&dry, "dry-run", "n", false, "only print what would be done")
	return cmd
}

// refusedFile is the error that what a round was about is not what the file says
// now, as that is at fault.
func refusedFile(ctx context.Context, c *api.Client) error {
	st, err := status.Get.Call(ctx, c, api.None{})
	if err == nil && st.Config.LastError != "" {
		var lines []string
		for line := range strings.SplitSeq(st.Config.LastError, "\n") {
			lines = append(lines, proc.Plain(line))
		}
		err = command.Exitf(command.ExitConfig, "the file was rejected, and the previous version stays in force:\n%s",
			strings.Join(lines, "\n"))
	}
	return err
}

func printRound(s *command.Streams, r pool.Round) error {
	if s.JSON {
		return s.PrintJSON(r)
	}
	var lines []string
	for _, p := range r.Pools {
		lines = append(lines, proc.Plain(fmt.Sprintf("%-7s %s: %s; %s", "pool", p.Path, show.PoolText(p.Pool),
			show.CheckText(p.Pool, time.Now()))))
	}
	for _, a := range r.Actions {
		lines = append(lines, proc.Plain(fmt.Sprintf("%-7s %s: %s", a.Action, a.Path, a.Reason)))
	}
	for _, d := range r.Delays {
		switch {
		case d.For != "":
			lines = append(lines, proc.Plain(fmt.Sprintf("%-7s %s: for %s", "wait", d.Path, d.For)))
		case d.Until != nil:
			lines = append(lines, proc.Plain(fmt.Sprintf("%-7s %s: %s, but started too often; until %s", "wait",
				d.Path, d.Cause, d.Until.Local().Format(time.DateTime))))
		}
	}
	if len(r.Actions)+len(r.Delays) == 0 {
		lines = append(lines, "nothing to do: what runs is what the file says")
	}
	return s.PrintLines(lines...)
}

func NewReload(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration now",
		Long: `Make the daemon read its file now. It does so by itself when the file changes, and on
SIGHUP if it has no terminal.

New agents are started, removed ones are stopped, and agents whose command or environment
changed are restarted. All other changes restart nothing. A file with errors changes nothing;
coppice status shows the errors. The name of the project and [persistence] cannot change while
the daemon runs.`,
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			done, err := command.Call(r.Ask, reconcile.Reload, api.None{})
			if err != nil {
				return err
			}
			return s.PrintLine(done, fmt.Sprint("reloaded: ", done))
		},
	}
	r.Flags(cmd)
	s.JSONFlag(cmd, "one object")
	return cmd
}
