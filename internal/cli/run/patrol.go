package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/status"
)

func NewPatrol(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var dry bool
	cmd := &cobra.Command{
		Use:   "patrol",
		Short: "Reconcile running agents with the file now",
		Long: `Compare the running agents with the file now, and start, stop or restart what differs.
The daemon also does this after each event, and every patrol_interval.

It prints how many instances each pool wants by the last result of its check, and then each
action and each wait with its reason. It starts the checks again without waiting for them;
--dry-run does not. If the file has errors, the exit code is 78, and agents are compared with
its last valid version.`,
		Example:           "  coppice patrol --dry-run",
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return r.Ask(func(ctx context.Context, c *api.Client) error { return patrol(ctx, s, c, dry) })
		},
	}
	r.Flags(cmd)
	s.JSONFlag(cmd, "one object")
	cmd.Flags().BoolVarP(&dry, "dry-run", "n", false, "only print what would be done")
	return cmd
}

// patrol requests a reconciliation, and prints what it did or would do.
func patrol(ctx context.Context, s *command.Streams, c *api.Client, dry bool) error {
	pass, err := pool.Patrol.Call(ctx, c, pool.PatrolRequest{DryRun: dry})
	if err != nil {
		return err
	}
	return errors.Join(printPass(s, pass), rejectedFile(ctx, c))
}

// rejectedFile returns an error if the file has errors: the reconciliation used its last valid
// version.
func rejectedFile(ctx context.Context, c *api.Client) error {
	st, err := status.Get.Call(ctx, c, api.None{})
	if err == nil && st.Config.LastError != "" {
		err = command.Exitf(command.ExitConfig, "the file was rejected, and the previous version stays in force:\n%s",
			terminal.PlainText(st.Config.LastError))
	}
	return err
}

func printPass(s *command.Streams, r pool.Pass) error {
	return s.Print(r, func(terminal.Paint, int) []string { return passLines(r, time.Now()) })
}

func passLines(r pool.Pass, now time.Time) (lines []string) {
	line := func(what, path, format string, args ...any) {
		text := fmt.Sprintf("%-7s %s: ", what, path) + fmt.Sprintf(format, args...)
		lines = append(lines, plaintext.Line(text))
	}
	for _, p := range r.Pools {
		line("pool", p.Path, "%s; %s", show.PoolText(p.Pool), show.CheckText(p.Pool, now))
	}
	for _, a := range r.Actions {
		line(a.Action, a.Path, "%s", a.Reason)
	}
	for _, d := range r.Delays {
		switch {
		case d.For != "":
			line("wait", d.Path, "for %s", d.For)
		case d.Until != nil:
			line("wait", d.Path, "%s, but started too often; until %s", d.Cause,
				d.Until.Local().Format(time.DateTime))
		}
	}
	if len(r.Actions)+len(r.Delays) == 0 {
		lines = append(lines, "nothing to do: what runs is what the file says")
	}
	return lines
}

func NewReload(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration now",
		Long: `Make the daemon read its file now. It also does so when the file changes, and on
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
