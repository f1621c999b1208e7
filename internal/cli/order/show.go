package order

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func newShow(s *command.Streams, r *command.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the details of an order",
		RunE: func(_ *cobra.Command, args []string) error {
			return command.Show(s, r.Look, dispatch.Get, dispatch.Name{Name: args[0]}, orderDetail)
		},
	}
	s.JSONFlag(cmd, "one object")
	return cmd
}

func orderDetail(o dispatch.Info, p terminal.Paint, _ int) []string {
	now := time.Now()
	lines := []string{p.Bold(terminal.Cell(o.Name))}
	if o.Description != "" {
		lines[0] += "  " + plaintext.Line(o.Description)
	}
	field := func(name, value string) {
		if value != "" {
			lines = append(lines, p.Dim(fmt.Sprintf("%-9s", name))+plaintext.Line(value))
		}
	}
	field("state", orderState(o)+": "+o.Reason)
	if o.ByHand != "" && !strings.HasSuffix(o.Reason, "by hand") {
		field("", o.ByHand+" by hand")
	}
	for _, g := range o.Gates {
		text := g.Text + ": " + g.Reason
		switch {
		case g.NextAt == nil:
		case g.Kind == order.Cron.String() && !g.Open: // its reason has the time, in the time zone of the schedule
			text += " (" + terminal.UntilText(g.NextAt, now) + ")"
		default:
			text += ", next " + terminal.Clock(*g.NextAt, now) + " (" + terminal.UntilText(g.NextAt, now) + ")"
		}
		field("gate", text)
	}
	if len(o.Gates) > 1 {
		field("match", o.Match)
	}
	if o.Task != "" {
		text := o.Task
		if o.Pool != "" {
			text += " (pool " + o.Pool + ")"
		}
		field("task", text)
	} else {
		field("exec", strings.Join(o.Exec, " "))
		field("dir", o.Dir)
	}
	field("timeout", timespan.Short(time.Duration(o.Timeout*float64(time.Second))))
	field("overlap", o.Overlap)
	if o.Retries > 0 {
		field("retries", fmt.Sprint(o.Retries))
	}
	if o.CatchUp {
		field("catch_up", "true")
	}
	if o.Pending > 0 {
		field("events", fmt.Sprintf("%d wait", o.Pending))
	}
	field("last", lastText(o.Last, now))
	if o.Last != nil && o.Last.Error != "" {
		field("", o.Last.Error)
	}
	field("runs", fmt.Sprintf("%d, %d skipped", o.Runs, o.Skips))
	if o.Skipped != "" && o.SkippedAt != nil {
		field("skipped", terminal.Clock(*o.SkippedAt, now)+": "+o.Skipped)
	}
	field("source", o.Source)
	return lines
}

// exitUnknown is the exit code if the check failed.
const exitUnknown = 2

func newCheck(s *command.Streams, r *command.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check NAME",
		Short: "Check whether an order is due, and why",
		Long: `Show whether an order is due, why, and when it is next. This runs the check of its
condition, and fires nothing.

Exit codes: 0 if it is due, 1 if it is not, 2 if that is unknown, 3 if there is no such order,
69 if there is no daemon.`,
		Example: `  if coppice order check backup; then echo "it will run"; fi`,
		RunE: func(_ *cobra.Command, args []string) error {
			o, err := command.Call(r.Ask, dispatch.Check, dispatch.Name{Name: args[0]})
			if err == nil {
				err = s.Print(o, func(terminal.Paint, int) []string { return checkLines(o, time.Now()) })
			}
			switch {
			case err != nil && command.ExitCode(err) == command.ExitFailure: // this code means not due
				return command.Exit(exitUnknown, err)
			case err == nil && !o.Due:
				return command.Exit(command.ExitFailure, nil)
			}
			return err
		},
	}
	s.JSONFlag(cmd, "one object")
	return cmd
}

func checkLines(o dispatch.Info, now time.Time) []string {
	verdict := "not due"
	if o.Due {
		verdict = "due"
	}
	line := fmt.Sprintf("%s: %s: %s", plaintext.Line(o.Name), verdict, plaintext.Line(o.Reason))
	if !o.Due && o.NextAt != nil {
		line += fmt.Sprintf("; next fire %s, %s", terminal.UntilText(o.NextAt, now), terminal.Clock(*o.NextAt, now))
	}
	lines := []string{line}
	for _, said := range o.Said {
		lines = append(lines, "  "+plaintext.Line(said))
	}
	return lines
}

func newNext(s *command.Streams, r *command.Remote) *cobra.Command {
	count := 5
	cmd := &cobra.Command{
		Use:   "next NAME",
		Short: "Show when an order fires next",
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 1 || count > 1000 {
				return command.Usagef("--count is %d, expected 1 to 1000", count)
			}
			req := dispatch.NextRequest{Name: args[0], Count: uint64(count)}
			return command.Show(s, r.Look, dispatch.Next, req, nextLines)
		},
	}
	cmd.Flags().IntVarP(&count, "count", "n", count, "how many times, `N`")
	s.JSONFlag(cmd, "an object with an array of times")
	return cmd
}

func nextLines(t dispatch.Times, _ terminal.Paint, _ int) (lines []string) {
	for _, at := range t.Times {
		lines = append(lines, at.Format("Mon 2006-01-02 15:04:05 -07:00")+"  "+terminal.UntilText(&at, time.Now()))
	}
	return lines
}
