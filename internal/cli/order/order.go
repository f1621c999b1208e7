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
	"github.com/coppice-dev/coppice/internal/runtime/proc"
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
		names = append(names, cobra.CompletionWithDesc(o.Name, proc.Plain(o.Description)))
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

// gatesText is the gates of an order in short.
func gatesText(o dispatch.Info) string {
	if len(o.Gates) == 0 {
		return "manual"
	}
	var all []string
	for _, g := range o.Gates {
		text := g.Text
		if g.Kind == "condition" {
			text = "condition"
		}
		all = append(all, text)
	}
	return strings.Join(all, map[bool]string{true: " and ", false: " or "}[o.Match == "all"])
}

func orderState(o dispatch.Info) string {
	switch {
	case o.Running > 1:
		return fmt.Sprintf("%d running", o.Running)
	case o.Running > 0 && o.Last != nil:
		return proc.Plain(o.Last.Status)
	case !o.Enabled:
		return "disabled"
	case o.Due:
		return "due"
	}
	return "waits"
}

// lastText is how the last run has ended.
func lastText(r *dispatch.RunInfo, now time.Time) string {
	switch {
	case r == nil:
		return "never"
	case r.EndedAt == nil:
		return fmt.Sprintf("%s, since %s", proc.Plain(r.Status), timespan.Short(max(0, now.Sub(r.FiredAt))))
	}
	return fmt.Sprintf("%s %s ago", proc.Plain(r.Status), timespan.Short(max(0, now.Sub(*r.EndedAt))))
}
