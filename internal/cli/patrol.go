package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

func newPatrol(s *streams) *cobra.Command {
	var r remote
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "patrol",
		Short: "Reconcile running agents with the file now",
		Long: `Compare what runs with the file, now, and do what is needed so that they agree. The
daemon does so by itself whenever something happens, and every patrol_interval.

It prints what there is to do, a line each with its reason, and what waits; before that,
how many instances each pool wants, by what its check has said last. It has the checks run
again, and does not wait for them; with --dry-run nothing is run. The exit code is 78 if
the file is at fault: what runs is then compared with the last version that was not.`,
		Example:           "  coppice patrol --dry-run",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return r.ask(func(ctx context.Context, c *api.Client) error {
				round, err := c.Patrol(ctx, dry)
				if err != nil {
					return err
				}
				return errors.Join(s.printRound(round, asJSON), refusedFile(ctx, c))
			})
		},
	}
	r.flags(cmd)
	jsonFlag(cmd, &asJSON, "one object")
	cmd.Flags().BoolVarP(&dry, "dry-run", "n", false, "only say what there is to do")
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
		err = &exitError{exitConfig, fmt.Errorf("the file was rejected, and the previous version stays in force:\n%s",
			strings.Join(lines, "\n"))}
	}
	return err
}

func (s *streams) printRound(r api.Round, asJSON bool) error {
	if asJSON {
		return s.printJSON(r)
	}
	var lines []string
	for _, p := range r.Pools {
		lines = append(lines, proc.Plain(fmt.Sprintf("%-7s %s: %s; %s", "pool", p.Path, poolText(p.Pool),
			checkText(p.Pool, time.Now()))))
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
	return s.printLines(lines)
}
