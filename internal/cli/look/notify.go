package look

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// NewNotify returns the commands about notifications.
func NewNotify(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Show and test notifications of people",
		Long: `Show and test the ways by which people are told when they are needed: the tables
[[notify]] of coppice.toml.`,
	}
	cmd.AddCommand(newNotifyList(s, r), newNotifyTest(s, r))
	for _, sub := range cmd.Commands() {
		r.Flags(sub)
	}
	return cmd
}

func newNotifyList(s *command.Streams, r *command.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List how people are notified, and the last errors",
		Long:    `List the tables [[notify]] of coppice.toml, with what became of the last message.`,
		Args:    command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return command.Show(s, r.Ask, notify.List, api.None{},
				func(all []notify.Info, p terminal.Paint, width int) []string {
					return notifyLines(all, time.Now(), p, width)
				})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	s.JSONFlag(cmd, "an array")
	return cmd
}

func newNotifyTest(s *command.Streams, r *command.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "test [NAME]",
		Short: "Send a test message now",
		Long: `Have the daemon send a test message now, by one [[notify]] or by all, also in quiet hours.
The exit code is 1 if one was not delivered.`,
		Args: command.AtMostOne("notification"),
		RunE: func(_ *cobra.Command, args []string) error {
			results, err := command.Call(r.Ask, notify.Test, notify.TestRequest{Name: strings.Join(args, "")})
			if err != nil {
				return err
			}
			if len(results) == 0 {
				return errors.New("there are no notifications; [[notify]] in coppice.toml declares one")
			}
			failed := 0
			for _, t := range results {
				text := "sent"
				if t.Error != "" {
					failed++
					text = "failed: " + plaintext.Line(t.Error)
				}
				fmt.Fprintf(s.Out, "%s via %s: %s\n", plaintext.Line(t.Name), t.Via, text)
			}
			if failed > 0 {
				return fmt.Errorf("%d of %s not delivered", failed, plaintext.Plural(len(results), "message"))
			}
			return nil
		},
		ValidArgsFunction: r.Complete(completeNotify),
	}
}

func completeNotify(ctx context.Context, c *api.Client, args []string) (names []cobra.Completion, _ error) {
	if len(args) > 0 {
		return nil, nil
	}
	all, err := notify.List.Call(ctx, c, api.None{})
	for _, n := range all {
		names = append(names, cobra.CompletionWithDesc(n.Name, n.Via))
	}
	return names, err
}

// notifyLines shows how people are notified.
func notifyLines(all []notify.Info, now time.Time, p terminal.Paint, width int) []string {
	if len(all) == 0 {
		return []string{"there are no notifications; [[notify]] in coppice.toml declares one"}
	}
	l := listing{p: p, width: width}
	for _, n := range all {
		l.head(fmt.Sprintf("%s via %s", p.Bold(plaintext.Line(n.Name)), n.Via))
		l.field("on", strings.Join(n.On, ", "))
		if n.Pending > 0 {
			l.field("pending", fmt.Sprint(n.Pending))
		}
		sent := "never"
		if !n.LastSent.IsZero() {
			sent = terminal.Clock(n.LastSent, now)
		}
		l.field("sent", sent)
		l.field("error", n.Error)
		if !n.RetryAt.IsZero() {
			l.field("retry", terminal.Clock(n.RetryAt, now))
		}
		if !n.HeldTill.IsZero() {
			l.field("held", "until "+terminal.Clock(n.HeldTill, now)+", as somebody looks at what needs people")
		}
	}
	return l.lines
}
