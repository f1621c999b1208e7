// Package order has the commands about orders.
package order

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func New(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "order",
		Short: "Show, check and run orders (scheduled commands)",
		Long: `Show, check and run orders. An order runs a command, or creates a task, when a gate
opens: at a time, after an interval, on an event or a condition, or by hand. Runs survive the
daemon. Orders are in coppice.toml, or in files of their own in orders/.`,
	}
	cmd.AddCommand(newList(s, r), newShow(s, r), newCheck(s, r), newRun(s, r),
		newHistory(s, r), newNext(s, r), newStop(s, r),
		newSwitch(s, r, dispatch.EnableOrder), newSwitch(s, r, dispatch.DisableOrder))
	for _, sub := range cmd.Commands() {
		r.Flags(sub)
		if sub.Name() == "ls" {
			sub.ValidArgsFunction = cobra.NoFileCompletions
		} else {
			sub.Args = command.One("order", "the name of an order is missing; coppice order ls lists them")
			sub.ValidArgsFunction = r.Complete(completeOrder)
		}
	}
	return cmd
}

func completeOrder(ctx context.Context, c *api.Client, args []string) (names []cobra.Completion, _ error) {
	if len(args) > 0 {
		return nil, nil
	}
	all, err := dispatch.List.Call(ctx, c, api.None{})
	for _, o := range all {
		names = append(names, cobra.CompletionWithDesc(o.Name, plaintext.Line(o.Description)))
	}
	return names, err
}

func newList(s *command.Streams, r *command.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List all orders",
		Args:    command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return command.Show(s, r.Look, dispatch.List, api.None{}, orderLines)
		},
	}
	s.JSONFlag(cmd, "an array of objects")
	return cmd
}

func orderLines(all []dispatch.Info, p terminal.Paint, width int) []string {
	if len(all) == 0 {
		return []string{"no orders; they are written as [[order]] in coppice.toml, or as files in orders/"}
	}
	now := time.Now()
	rows := make([][]string, len(all))
	for i, o := range all {
		rows[i] = []string{terminal.Cell(o.Name), terminal.Cell(gatesText(o)), orderState(o), lastText(o.Last, now),
			terminal.UntilText(o.NextAt, now), terminal.Cell(o.Description)}
	}
	return terminal.Table([]string{"NAME", "GATE", "STATE", "LAST", "NEXT", "DESCRIPTION"}, rows, width,
		terminal.BoldHeader(p))
}

// gatesText summarizes the gates of an order.
func gatesText(o dispatch.Info) string {
	if len(o.Gates) == 0 {
		return "manual"
	}
	all := make([]string, len(o.Gates))
	for i, g := range o.Gates {
		all[i] = g.Text
		if g.Kind == "condition" {
			all[i] = "condition"
		}
	}
	if o.Match == "all" {
		return strings.Join(all, " and ")
	}
	return strings.Join(all, " or ")
}

func orderState(o dispatch.Info) string {
	switch {
	case o.Running > 1:
		return fmt.Sprintf("%d running", o.Running)
	case o.Running > 0 && o.Last != nil:
		return plaintext.Line(o.Last.Status)
	case !o.Enabled:
		return "disabled"
	case o.Due:
		return "due"
	}
	return "waits"
}

// lastText describes the last run.
func lastText(r *dispatch.RunInfo, now time.Time) string {
	switch {
	case r == nil:
		return "never"
	case r.EndedAt == nil:
		return fmt.Sprintf("%s, since %s", plaintext.Line(r.Status), timespan.Short(max(0, now.Sub(r.FiredAt))))
	}
	return fmt.Sprintf("%s %s ago", plaintext.Line(r.Status), timespan.Short(max(0, now.Sub(*r.EndedAt))))
}

func newHistory(s *command.Streams, r *command.Remote) *cobra.Command {
	var output bool
	count := 20
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the last runs of an order, the newest first",
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 1 || count > 1000 {
				return command.Usagef("--lines is %d, expected 1 to 1000", count)
			}
			req := dispatch.RunsRequest{Name: args[0], Count: uint64(count)}
			return command.Show(s, r.Look, dispatch.Runs, req,
				func(all []dispatch.RunInfo, p terminal.Paint, width int) []string {
					if len(all) == 0 {
						return []string{plaintext.Line(args[0]) + " has never run"}
					}
					return runLines(all, output, time.Now(), width, p)
				})
		},
	}
	cmd.Flags().IntVarP(&count, "lines", "n", count, "the last `N` runs")
	cmd.Flags().BoolVarP(&output, "output", "o", false, "print the last lines of their output")
	s.JSONFlag(cmd, "an array of objects, with the output")
	return cmd
}

func runLines(all []dispatch.RunInfo, output bool, now time.Time, width int, p terminal.Paint) []string {
	rows := make([][]string, len(all))
	for i, r := range all {
		code := "-"
		switch {
		case r.Signal != "":
			code = r.Signal
		case r.Code != nil:
			code = fmt.Sprint(*r.Code)
		}
		took := "-"
		if r.EndedAt != nil {
			took = timespan.Short(time.Duration(r.Duration * float64(time.Second)))
		}
		why := r.Reason
		if r.Error != "" {
			why += "; " + r.Error
		}
		rows[i] = []string{terminal.Cell(r.ID), plaintext.Line(r.Status), terminal.Clock(r.FiredAt, now), took, code,
			fmt.Sprint(r.Attempt), terminal.Cell(why)}
	}
	lines := terminal.Table([]string{"RUN", "STATUS", "FIRED", "TOOK", "CODE", "TRY", "WHY"}, rows, width,
		terminal.BoldHeader(p))
	if !output {
		return lines
	}
	var with []string
	for i, line := range lines {
		with = append(with, line)
		if i > 0 {
			for _, text := range all[i-1].Output {
				with = append(with, "    "+plaintext.Line(text))
			}
		}
	}
	return with
}
