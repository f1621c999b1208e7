package look

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
)

func NewEvents(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var q event.Query
	var since string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what has happened",
		Long: `Show past events, and with -f new ones until Ctrl-C. Each event has a number: --after
NUMBER continues after it, without missing or repeating one. With -f this also holds when the
daemon is killed and started again.

A log that was restored from a backup, or has lost events, begins a new epoch. With --epoch,
--after notices that: it prints events.reset and then all events that are kept.`,
		Example: `  coppice events -n 20 -f
  coppice events -f --path app/db
  coppice events --since 12h --type agent.crashed
  coppice events --type 'agent.*' --type order.failed --json`,
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if err := q.CheckTypes(); err != nil {
				return command.Usagef("--type: %w", err)
			}
			if q.Last < 0 {
				return command.Usagef("--lines: %d is negative", q.Last)
			}
			var err error
			if q.Since, err = parseSince(since, time.Now()); err != nil {
				return err
			}
			return r.Look(func(ctx context.Context, c *api.Client) error {
				p, _ := s.Paint()
				for e, err := range feed.Events(ctx, c, q) {
					if err != nil {
						return err
					}
					if s.JSON {
						err = event.WriteNDJSON(terminal.InertWriter{W: s.Out}, e)
					} else {
						_, err = fmt.Fprintf(s.Out, "%s %s\n", p.Dim(fmt.Sprintf("%6d", e.Seq)),
							show.EventLine(e, time.Now(), p))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	r.LongFlags(cmd)
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "print new events until Ctrl-C")
	cmd.Flags().IntVarP(&q.Last, "lines", "n", 0, "only the last `N` events")
	cmd.Flags().StringVar(&since, "since", "",
		"only events since a `TIME` such as 12h or 2026-01-02T15:04:05Z")
	cmd.Flags().Uint64Var(&q.After, "after", 0, "only events with a greater `NUMBER`")
	cmd.Flags().StringVar(&q.Epoch, "epoch", "", "the `EPOCH` of the NUMBER, as --json prints it")
	cmd.Flags().StringArrayVar(&q.Types, "type", nil,
		"only events of this `TYPE`, or of a pattern such as 'agent.*'; can be repeated")
	cmd.Flags().StringVar(&q.Path, "path", "", "only events of this node and those below it")
	s.JSONFlag(cmd, "one object a line")
	cmd.RegisterFlagCompletionFunc("path", r.CompletePath(true))
	cmd.RegisterFlagCompletionFunc("type",
		func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return event.Types(), cobra.ShellCompDirectiveNoFileComp
		})
	return cmd
}
