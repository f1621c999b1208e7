package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func newOrder(s *streams) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "order",
		Short: "Show, check and fire orders: what is run when its gates open",
		Long: `Show, check and fire orders. An order is a command, or a task, that waits for its
gates: time since its last run, times of the calendar, a condition, events, people.
Its runs outlive the daemon. Orders are written in coppice.toml or in files of
their own in orders/.`,
	}
	cmd.AddCommand(newOrderList(s, &r), newOrderShow(s, &r), newOrderCheck(s, &r), newOrderRun(s, &r), newOrderHistory(s, &r), newOrderNext(s, &r), newOrderStop(s, &r),
		newOrderSwitch(s, &r, api.EnableOrder), newOrderSwitch(s, &r, api.DisableOrder))
	for _, sub := range cmd.Commands() {
		r.flags(sub)
		if sub.Name() == "ls" {
			sub.ValidArgsFunction = cobra.NoFileCompletions
		} else {
			sub.Args, sub.ValidArgsFunction = oneOrder, r.completeOrder
		}
	}
	return cmd
}

// oneOrder checks the arguments of a command that takes the name of an order.
func oneOrder(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("the name of an order is missing; coppice order ls lists them")
	case len(args) > 1:
		return fmt.Errorf("unexpected argument %q: %s takes one order", args[1], cmd.CommandPath())
	}
	return nil
}

func (r *remote) completeOrder(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	client, err := r.dial()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	all, err := client.Orders(ctx)
	if err == nil {
		for _, o := range all {
			names = append(names, cobra.CompletionWithDesc(o.Name, proc.Plain(o.Description)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newOrderList(s *streams, r *remote) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List all orders",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			return r.ask(func(ctx context.Context, c *api.Client) error {
				all, err := c.Orders(ctx)
				switch {
				case err != nil:
					return err
				case asJSON:
					return s.printJSON(all)
				case len(all) == 0:
					return s.printLines([]string{"no orders; they are written as [[order]] in coppice.toml, or as files in orders/"})
				}
				width, tty := isTerminal(s.out)
				return s.printLines(orderLines(all, time.Now(), width, newPaint(tty)))
			})
		},
	}
	jsonFlag(cmd, &asJSON, "an array of objects")
	return cmd
}

func orderLines(all []api.Order, now time.Time, width int, p paint) []string {
	rows := make([][]string, len(all))
	for i, o := range all {
		rows[i] = []string{cell(o.Name), cell(gatesText(o)), orderState(o), lastText(o.Last, now), untilText(o.NextAt, now), cell(o.Description)}
	}
	return table([]string{"NAME", "GATE", "STATE", "LAST", "NEXT", "DESCRIPTION"}, rows, width, boldHeader(p))
}

// gatesText is the gates of an order in short.
func gatesText(o api.Order) string {
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

func orderState(o api.Order) string {
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
func lastText(r *api.OrderRun, now time.Time) string {
	switch {
	case r == nil:
		return "never"
	case r.EndedAt == nil:
		return fmt.Sprintf("%s, since %s", proc.Plain(r.Status), short(max(0, now.Sub(r.FiredAt))))
	}
	return fmt.Sprintf("%s %s ago", proc.Plain(r.Status), short(max(0, now.Sub(*r.EndedAt))))
}

func untilText(at *time.Time, now time.Time) string {
	switch {
	case at == nil:
		return "-"
	case !at.After(now):
		return "now"
	}
	return "in " + short(at.Sub(now))
}

func newOrderShow(s *streams, r *remote) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show all there is of an order",
		RunE: func(_ *cobra.Command, args []string) error {
			return r.ask(func(ctx context.Context, c *api.Client) error {
				o, err := c.Order(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return s.printJSON(o)
				}
				_, tty := isTerminal(s.out)
				return s.printLines(orderDetail(o, time.Now(), newPaint(tty)))
			})
		},
	}
	jsonFlag(cmd, &asJSON, "one object")
	return cmd
}

func orderDetail(o api.Order, now time.Time, p paint) []string {
	lines := []string{p.bold(cell(o.Name)) + "  " + proc.Plain(o.Description)}
	fact := func(name, value string) {
		if value != "" {
			lines = append(lines, p.dim(fmt.Sprintf("%-9s", name))+proc.Plain(value))
		}
	}
	fact("state", orderState(o)+": "+o.Reason)
	if o.ByHand != "" {
		fact("", o.ByHand+" by hand")
	}
	for _, g := range o.Gates {
		text := g.Text + ": " + g.Reason
		if g.NextAt != nil {
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
	fact("timeout", short(time.Duration(o.Timeout*float64(time.Second))))
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

func newOrderCheck(s *streams, r *remote) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check NAME",
		Short: "Say whether an order is due, why, and when it is next",
		Long: `Say whether an order is due, why, and when it is next. Its condition is tried for
that, if it has one; nothing is fired. The exit code is 0 if it is due, and 1 if not.`,
		RunE: func(_ *cobra.Command, args []string) error {
			return r.ask(func(ctx context.Context, c *api.Client) error {
				o, err := c.CheckOrder(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					err = s.printJSON(o)
				} else {
					err = s.printLines(checkLines(o, time.Now()))
				}
				if err == nil && !o.Due {
					err = &exitError{code: exitFailure}
				}
				return err
			})
		},
	}
	jsonFlag(cmd, &asJSON, "one object")
	return cmd
}

func checkLines(o api.Order, now time.Time) []string {
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

func newOrderRun(s *streams, r *remote) *cobra.Command {
	var asJSON, wait bool
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Fire an order, whatever its gates say",
		Long: `Fire an order, whatever its gates say, and print the id of the run. With --wait the
command returns when the run has ended, prints its output, and has exit code 0 if
it has completed, 124 if it has taken too long, and 1 if it has failed.`,
		Example: `  coppice order run backup --wait`,
		RunE: func(_ *cobra.Command, args []string) error {
			return r.ask(func(ctx context.Context, c *api.Client) error {
				done, err := c.ActOnOrder(ctx, api.OrderAct{Name: args[0], Action: api.RunOrder, By: userName()})
				switch {
				case err != nil:
					return err
				case done.Queued && asJSON:
					return s.printJSON(done)
				case done.Queued:
					return s.printLines([]string{proc.Plain(args[0]) + " is running; it runs once more after that"})
				case !wait && asJSON:
					return s.printJSON(done)
				case !wait:
					return s.printLines([]string{done.Run})
				}
				return s.awaitRun(ctx, c, done.Run, asJSON)
			})
		},
	}
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait until it has ended")
	jsonFlag(cmd, &asJSON, "one object")
	return cmd
}

// awaitRun waits for the end of a run, also where another daemon goes on with it.
func (s *streams) awaitRun(ctx context.Context, c *api.Client, id string, asJSON bool) error {
	var run api.OrderRun
	err := persist(ctx, agentPatience, func() (err error) {
		run, err = c.OrderRun(ctx, id, true)
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		err = s.printJSON(run)
	} else {
		lines := run.Output
		for i := range lines {
			lines[i] = proc.Plain(lines[i])
		}
		if run.Task != "" {
			lines = append(lines, "task "+proc.Plain(run.Task))
		}
		if len(lines) > 0 {
			err = s.printLines(lines)
		}
	}
	switch {
	case err != nil || run.Status == "completed":
		return err
	case run.Status == "timed out":
		return &exitError{exitTimeout, fmt.Errorf("run %s of order %s has taken too long: %s", run.ID, run.Order, proc.Plain(run.Error))}
	}
	how := map[string]string{"failed": "has failed", "stopped": "was stopped", "interrupted": "was interrupted"}[run.Status]
	return fmt.Errorf("run %s of order %s %s: %s", run.ID, run.Order, cmp.Or(how, "is "+proc.Plain(run.Status)), proc.Plain(run.Error))
}

func newOrderHistory(s *streams, r *remote) *cobra.Command {
	var asJSON, output bool
	count := 20
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the last runs of an order, the newest first",
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 1 || count > 1000 {
				return usage(fmt.Errorf("--lines is %d, expected 1 to 1000", count))
			}
			return r.ask(func(ctx context.Context, c *api.Client) error {
				all, err := c.OrderRuns(ctx, args[0], count)
				switch {
				case err != nil:
					return err
				case asJSON:
					return s.printJSON(all)
				case len(all) == 0:
					return s.printLines([]string{proc.Plain(args[0]) + " has never run"})
				}
				width, tty := isTerminal(s.out)
				return s.printLines(runLines(all, output, time.Now(), width, newPaint(tty)))
			})
		},
	}
	cmd.Flags().IntVarP(&count, "lines", "n", count, "the last `N` runs")
	cmd.Flags().BoolVarP(&output, "output", "o", false, "with the last lines of their output")
	jsonFlag(cmd, &asJSON, "an array of objects, with the output")
	return cmd
}

func runLines(all []api.OrderRun, output bool, now time.Time, width int, p paint) []string {
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
			took = short(time.Duration(r.Duration * float64(time.Second)))
		}
		why := r.Reason
		if r.Error != "" {
			why += "; " + r.Error
		}
		rows[i] = []string{cell(r.ID), proc.Plain(r.Status), clock(r.FiredAt, now), took, code, fmt.Sprint(r.Attempt), cell(why)}
	}
	lines := table([]string{"RUN", "STATUS", "FIRED", "TOOK", "CODE", "TRY", "WHY"}, rows, width, boldHeader(p))
	if !output {
		return lines
	}
	var with []string
	for i, line := range lines {
		with = append(with, line)
		if i > 0 {
			for _, text := range all[i-1].Output {
				with = append(with, "    "+proc.Plain(text))
			}
		}
	}
	return with
}

func newOrderNext(s *streams, r *remote) *cobra.Command {
	var asJSON bool
	count := 5
	cmd := &cobra.Command{
		Use:   "next NAME",
		Short: "Show when an order fires next",
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 1 || count > 1000 {
				return usage(fmt.Errorf("--count is %d, expected 1 to 1000", count))
			}
			return r.ask(func(ctx context.Context, c *api.Client) error {
				t, err := c.NextOrder(ctx, args[0], count)
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

func newOrderStop(s *streams, r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "stop NAME",
		Short: "End the runs of an order that go on",
		RunE: func(_ *cobra.Command, args []string) error {
			return r.ask(func(ctx context.Context, c *api.Client) error {
				done, err := c.ActOnOrder(ctx, api.OrderAct{Name: args[0], Action: api.StopOrder, By: userName()})
				if err != nil {
					return err
				}
				return s.printLines([]string{fmt.Sprintf("%s asked to stop", plural(done.Stopped, "run"))})
			})
		},
	}
}

func newOrderSwitch(s *streams, r *remote, action api.OrderAction) *cobra.Command {
	short, done := "Let the gates of an order fire it, whatever its file says", "enabled"
	if action == api.DisableOrder {
		short, done = "Keep the gates of an order from firing it, whatever its file says", "disabled"
	}
	return &cobra.Command{
		Use:   string(action) + " NAME",
		Short: short,
		Long:  short + ". That holds until\nthe other is asked for, also over restarts of the daemon. coppice order run fires it\nin any case.",
		RunE: func(_ *cobra.Command, args []string) error {
			return r.ask(func(ctx context.Context, c *api.Client) error {
				if _, err := c.ActOnOrder(ctx, api.OrderAct{Name: args[0], Action: action, By: userName()}); err != nil {
					return err
				}
				return s.printLines([]string{proc.Plain(args[0]) + " " + done})
			})
		},
	}
}

// orderCounts is how the orders get on, in a line.
func orderCounts(c api.OrderCounts, now time.Time) string {
	parts := []string{fmt.Sprint(c.Total)}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(c.Running, "running")
	add(c.Failing, "failed last")
	add(c.Disabled, "disabled")
	if c.NextAt != nil {
		parts = append(parts, "next "+c.Next+" "+untilText(c.NextAt, now))
	}
	return strings.Join(parts, ", ")
}
