package look

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func NewQuota(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "Show and resume quotas of language models",
		Long: `Show and resume quotas: accounts of language models. Agents wait for those whose usage limit
is reached, whose login is not accepted, or that have no money left.`,
	}
	cmd.AddCommand(newQuotaList(s, r), newQuotaResume(r))
	for _, sub := range cmd.Commands() {
		r.Flags(sub)
	}
	return cmd
}

func newQuotaList(s *command.Streams, r *command.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List quotas and the agents that wait for them",
		Long: `List the quotas of coppice.toml with the agents that use them, all others that agents
wait for, and those of which it is known how much is used.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return command.Show(s, r.Look, quota.List, api.None{},
				func(all []quota.Info, p terminal.Paint, width int) []string {
					return quotaLines(all, time.Now(), p, width)
				})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	s.JSONFlag(cmd, "an array")
	return cmd
}

func newQuotaResume(r *command.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME",
		Short: "Resume a quota: one agent tries now",
		Long: `Let one of the agents that wait for a quota try now. If it is served, the others follow;
if not, they wait again.`,
		Args: command.One("quota", "the name of a quota is missing; coppice quota ls lists them"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := command.Call(r.Ask, quota.Resume, quota.ResumeRequest{Name: args[0]})
			return err
		},
		ValidArgsFunction: r.Complete(completeQuota),
	}
}

func completeQuota(ctx context.Context, c *api.Client, args []string) (names []cobra.Completion, _ error) {
	if len(args) > 0 {
		return nil, nil
	}
	all, err := quota.List.Call(ctx, c, api.None{})
	for _, q := range all {
		names = append(names, cobra.CompletionWithDesc(q.Name, plaintext.Line(q.Reason)))
	}
	return names, err
}

// quotaLines shows quotas.
func quotaLines(all []quota.Info, now time.Time, p terminal.Paint, width int) []string {
	if len(all) == 0 {
		return []string{"no agent waits for a quota"}
	}
	l := listing{p: p, width: width}
	for _, q := range all {
		state := string(q.State)
		head := fmt.Sprintf("%s %s", p.Bold(plaintext.Line(q.Name)), show.PaintState(p, state, state))
		if q.State != quota.Open {
			head += fmt.Sprintf(": %s: %s", strings.ReplaceAll(plaintext.Line(q.Obstacle), "_", " "),
				plaintext.Line(q.Reason))
		}
		l.head(head)
		if q.State != quota.Open {
			how := ", met by "
			if q.BeforeRun {
				how = ", told before a run of "
			}
			l.field("since", terminal.Clock(q.Since, now)+how+q.Agent)
		}
		if !q.Reset.IsZero() {
			l.field("reset", terminal.Clock(q.Reset, now)+" ("+q.ResetFrom+")")
		} else if q.State == quota.Parked {
			l.field("reset", "not known")
		}
		l.field("used", usedOf(q, now))
		if q.State != quota.Open {
			l.field("next", nextOf(q, now))
		}
		l.field("waiting", agentsOf(q.Waiting))
		if q.CLI != "" { // it is declared
			l.field("agents", agentsOf(q.Agents))
			l.field("then", q.Next)
		}
	}
	return l.lines
}

// nextOf says what happens next.
func nextOf(q quota.Info, now time.Time) string {
	switch q.State {
	case quota.Parked:
		return fmt.Sprintf("one agent tries in %s, at %s", timespan.Short(max(0, q.Until.Sub(now))),
			terminal.Clock(q.Until, now))
	case quota.Probing:
		return q.First + " tries first; the others follow when it was served"
	}
	return "when it is mended: coppice quota resume " + q.Name
}

// usedOf says how much of the limits is used.
func usedOf(q quota.Info, now time.Time) string {
	var all []string
	for _, w := range q.Used {
		all = append(all, fmt.Sprintf("%.0f %% of %s (resets %s)", math.Floor(w.Used*100),
			quota.WindowText(w.Name), terminal.Clock(w.Reset, now)))
	}
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, ", ") + ", told " + timespan.Short(max(0, now.Sub(q.Told))) + " ago"
}

// agentsOf names agents, the first of them if there are many.
func agentsOf(paths []string) string {
	const most = 5
	text := plaintext.Plural(len(paths), "agent") + ": " + strings.Join(paths[:min(most, len(paths))], ", ")
	switch {
	case len(paths) == 0:
		return ""
	case len(paths) > most:
		text += ", ..."
	}
	return text
}
