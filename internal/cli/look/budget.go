package look

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
)

// NewBudget returns the commands about budgets.
func NewBudget(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Show and raise budgets of agents",
		Long: `Show and raise budgets: what agents may use of tokens, dollars, turns, time and runs. When
one is reached, the agents are ended and wait.`,
	}
	cmd.AddCommand(newBudgetList(s, r), newBudgetRaise(r))
	for _, sub := range cmd.Commands() {
		r.Flags(sub)
	}
	return cmd
}

func newBudgetList(s *command.Streams, r *command.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List budgets, with what is used and who waits",
		Long: `List the budgets of coppice.toml. What is not known is not in the numbers: they begin with >=
then. Of a budget per run or per task, the run or task that has used most is shown.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return command.Show(s, r.Look, budget.List, api.None{},
				func(all []budget.Info, p terminal.Paint, width int) []string {
					return budgetLines(all, time.Now(), p, width)
				})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	s.JSONFlag(cmd, "an array")
	return cmd
}

func newBudgetRaise(r *command.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "raise NAME",
		Short: "Raise a budget: allow as much again",
		Long: `Allow as much again. Of a budget per day, that is for today. The agents that a budget per run
has parked begin their next run, and the tasks that a budget per task has parked are
open again.`,
		Args: command.One("budget", "the name of a budget is missing; coppice budget ls lists them"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := command.Call(r.Ask, budget.RaiseBudget, budget.RaiseRequest{Name: args[0]})
			return err
		},
		ValidArgsFunction: r.Complete(completeBudget),
	}
}

func completeBudget(ctx context.Context, c *api.Client, args []string) (names []cobra.Completion, _ error) {
	if len(args) > 0 {
		return nil, nil
	}
	all, err := budget.List.Call(ctx, c, api.None{})
	for _, b := range all {
		names = append(names, cobra.CompletionWithDesc(b.Name, plaintext.Line(b.Reason)))
	}
	return names, err
}

// budgetLines shows budgets.
func budgetLines(all []budget.Info, now time.Time, p terminal.Paint, width int) []string {
	if len(all) == 0 {
		return []string{"there are no budgets; [[budget]] in coppice.toml declares one"}
	}
	l := listing{p: p, width: width}
	for _, b := range all {
		state := string(b.State)
		head := fmt.Sprintf("%s %s, per %s", p.Bold(plaintext.Line(b.Name)), show.PaintState(p, state, state), b.Per)
		if b.Raised > 0 {
			head += fmt.Sprintf(", raised %s today", times(b.Raised))
		}
		l.head(head)
		l.field("of", strings.Join(b.Of, ", "))
		l.field("quota", b.Quota)
		for _, m := range b.Limits {
			l.field(m.Limit, limitText(m))
		}
		if b.State == budget.Reached {
			if b.Per != string(spec.PerDay) { // the limits above are those of what goes on now
				l.field("reason", strings.TrimPrefix(b.Reason, "budget "+b.Name+": "))
			}
			l.field("since", terminal.Clock(b.Since, now))
			until := "a person acts: coppice budget raise " + b.Name
			if !b.Until.IsZero() {
				until = terminal.Clock(b.Until, now) + ", or: coppice budget raise " + b.Name
			}
			l.field("until", until)
		}
		waiting := b.Waiting
		if len(waiting) == 0 {
			waiting = b.Parked
		}
		l.field("waiting", agentsOf(waiting))
		if len(b.Tasks) > 0 {
			l.field("parked", strings.Join(b.Tasks, ", "))
		}
		l.field("unknown", strings.Join(b.Unknown, "; "))
	}
	return l.lines
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// barWidth is the number of characters of a bar.
const barWidth = 20

// limitText shows how much of a limit is used.
func limitText(m budget.Measure) string {
	percent := m.Percent()
	full := min(barWidth, percent*barWidth/100)
	text := fmt.Sprintf("[%s%s] %3d%%  %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), percent,
		strings.TrimSuffix(m.String(), " "+m.Limit))
	if m.Unknown > 0 {
		text += fmt.Sprintf(", %s unknown", plaintext.Plural(int(m.Unknown), "call"))
	}
	return text
}
