package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func newOrderShow(s *streams, r *remote) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show all there is of an order",
		RunE: func(_ *cobra.Command, args []string) error {
			return r.look(s, func(ctx context.Context, c *api.Client) error {
				o, err := dispatch.Get.Call(ctx, c, dispatch.Name{Name: args[0]})
				if err != nil {
					return err
				}
				if asJSON {
					return s.printJSON(o)
				}
				_, tty := terminal.Size(s.out)
				return s.printLines(orderDetail(o, time.Now(), newPaint(tty)))
			})
		},
	}
	jsonFlag(cmd, &asJSON, "one object")
	return cmd
}

func orderDetail(o dispatch.Info, now time.Time, p paint) []string {
	lines := []string{p.bold(cell(o.Name))}
	if o.Description != "" {
		lines[0] += "  " + proc.Plain(o.Description)
	}
	fact := func(name, value string) {
		if value != "" {
			lines = append(lines, p.dim(fmt.Sprintf("%-9s", name))+proc.Plain(value))
		}
	}
	fact("state", orderState(o)+": "+o.Reason)
	if o.ByHand != "" && !strings.HasSuffix(o.Reason, "by hand") {
		fact("", o.ByHand+" by hand")
	}
	for _, g := range o.Gates {
		text := g.Text + ": " + g.Reason
		switch {
		case g.NextAt == nil:
		case g.Kind == order.Cron.String() && !g.Open: // its reason says when, in the time zone of its schedule
			text += " (" + untilText(g.NextAt, now) + ")"
		default:
			text += ", next " + clock(*g.NextAt, now) + " (" + untilText(g.NextAt, now) + ")"
		}
		fact("gate", text)
	}
	if len(o.Gates) > 1 {
		fact("match", o.Match)
	}
	if o.Task != "" {
		text := o.Task
		if o.Pool != "" {
			text += " (pool " + o.Pool + ")"
		}
		fact("task", text)
	} else {
		fact("exec", strings.Join(o.Exec, " "))
		fact("dir", o.Dir)
	}
	fact("timeout", timespan.Short(time.Duration(o.Timeout*float64(time.Second))))
	fact("overlap", o.Overlap)
	if o.Retries > 0 {
		fact("retries", fmt.Sprint(o.Retries))
	}
	if o.CatchUp {
		fact("catch_up", "true")
	}
	if o.Pending > 0 {
		fact("events", fmt.Sprintf("%d wait", o.Pending))
	}
	fact("last", lastText(o.Last, now))
	if o.Last != nil && o.Last.Error != "" {
		fact("", o.Last.Error)
	}
	fact("runs", fmt.Sprintf("%d, %d skipped", o.Runs, o.Skips))
	if o.Skipped != "" && o.SkippedAt != nil {
		fact("skipped", clock(*o.SkippedAt, now)+": "+o.Skipped)
	}
	fact("source", o.Source)
	return lines
}

// exitUnknown is the exit code of a check that could not be made.
const exitUnknown = 2

func newOrderCheck(s *streams, r *remote) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check NAME",
		Short: "Check whether an order is due, and why",
		Long: `Say whether an order is due, why, and when it is next. Its condition is tried for
that, if it has one; nothing is fired.

The exit code is 0 if it is due, and 1 if it is not. Any other
code means that this is unknown: 2 in general, 3 if there is no such order, 69 if there is no daemon.`,
		Example: `  if coppice order check backup; then echo "it will run"; fi`,
		RunE: func(_ *cobra.Command, args []string) error {
			due := false
			err := r.ask(func(ctx context.Context, c *api.Client) error {
				o, err := dispatch.Check.Call(ctx, c, dispatch.Name{Name: args[0]})
				if err != nil {
					return err
				}
				if asJSON {
					err = s.printJSON(o)
				} else {
					err = s.printLines(checkLines(o, time.Now()))
				}
				due = o.Due
				return err
			})
			switch {
			case err != nil && exitCode(err) == exitFailure: // which is: it is not due
				return &exitError{exitUnknown, err}
			case err == nil && !due:
				return &exitError{code: exitFailure}
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON, "one object")
	return cmd
}

func checkLines(o dispatch.Info, now time.Time) []string {
	verdict := "not due"
	if o.Due {
		verdict = "due"
	}
	line := fmt.Sprintf("%s: %s: %s", proc.Plain(o.Name), verdict, proc.Plain(o.Reason))
	if !o.Due && o.NextAt != nil {
		line += fmt.Sprintf("; next fire %s, %s", untilText(o.NextAt, now), clock(*o.NextAt, now))
	}
	lines := []string{line}
	for _, said := range o.Said {
		lines = append(lines, "  "+proc.Plain(said))
	}
	return lines
}

func newOrderNext(s *streams, r *remote) *cobra.Command {
	var asJSON bool
	count := 5
	cmd := &cobra.Command{
		Use:   "next NAME",
		Short: "Show when an order fires next",
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 1 || count > 1000 {
				return usageError(fmt.Errorf("--count is %d, expected 1 to 1000", count))
			}
			return r.look(s, func(ctx context.Context, c *api.Client) error {
				t, err := dispatch.Next.Call(ctx, c, dispatch.NextRequest{Name: args[0], Count: uint64(count)})
				if err != nil {
					return err
				}
				if asJSON {
					return s.printJSON(t)
				}
				var lines []string
				for _, at := range t.Times {
					lines = append(lines, at.Format("Mon 2006-01-02 15:04:05 -07:00")+"  "+untilText(&at, time.Now()))
				}
				return s.printLines(lines)
			})
		},
	}
	cmd.Flags().IntVarP(&count, "count", "n", count, "how many times, `N`")
	jsonFlag(cmd, &asJSON, "an object with an array of times")
	return cmd
}
