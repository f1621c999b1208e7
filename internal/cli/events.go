package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func newEvents(s *streams) *cobra.Command {
	var r remote
	var asJSON bool
	var q event.Query
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what has happened",
		Long: `Show what has happened, and with -f what happens until Ctrl-C. Each event has a
number: --after goes on after one, and misses and repeats none. With -f that
holds also when the daemon is killed and started again meanwhile.

A log that was restored from a backup, or has lost events with the store, counts
in another epoch. Pass --epoch with --after to be told (events.reset); then all
events that are kept follow.`,
		Example: `  coppice events -n 20 -f
  coppice events -f --path app/db
  coppice events --type 'agent.*' --type order.failed --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if err := q.CheckTypes(); err != nil {
				return usageError(fmt.Errorf("--type: %w", err))
			}
			if q.Last < 0 {
				return usageError(fmt.Errorf("--lines: %d is negative", q.Last))
			}
			return r.look(s, func(ctx context.Context, c *api.Client) error {
				_, tty := terminal.Size(s.out)
				p := newPaint(tty)
				for e, err := range c.Events(ctx, q) {
					if err != nil {
						return err
					}
					if asJSON {
						err = event.WriteNDJSON(terminal.InertWriter{W: s.out}, e)
					} else {
						_, err = fmt.Fprintf(s.out, "%s %s\n", p.dim(fmt.Sprintf("%6d", e.Seq)),
							eventLine(e, time.Now(), p))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	r.longFlags(cmd)
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "go on with what happens")
	cmd.Flags().IntVarP(&q.Last, "lines", "n", 0, "only the last `N` of those that are there")
	cmd.Flags().Uint64Var(&q.After, "after", 0, "only events with a greater `NUMBER`")
	cmd.Flags().StringVar(&q.Epoch, "epoch", "", "the `EPOCH` in which --after counts, as --json shows it")
	cmd.Flags().StringArrayVar(&q.Types, "type", nil,
		"only events of this `TYPE`, or of a pattern such as 'agent.*'; can be repeated")
	cmd.Flags().StringVar(&q.Path, "path", "", "only events of this node and those below it")
	jsonFlag(cmd, &asJSON, "an object a line")
	cmd.RegisterFlagCompletionFunc("path", r.completePath(true))
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(event.Types(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// eventLine is an event in a line for people: without its number, and without
// the date if that is today's.
func eventLine(e event.Event, now time.Time, p paint) string {
	at, format := e.Time.Local(), time.TimeOnly
	if at.Format(time.DateOnly) != now.Local().Format(time.DateOnly) {
		format = time.DateTime
	}
	var b strings.Builder
	b.WriteString(p.dim(at.Format(format)) + " " + p.eventType(e.Type, proc.Plain(string(e.Type))))
	if e.Path != "" {
		b.WriteString(" " + p.bold(proc.Plain(e.Path)))
	}
	if e.Incarnation != 0 {
		b.WriteString(p.dim(fmt.Sprintf("#%d", e.Incarnation)))
	}
	if e.Message != "" {
		message := e.Text() // which stands there already
		b.WriteString(" " + proc.Plain(strings.ReplaceAll(message, "\n", " ")))
	}
	if e.Actor != "" && e.Actor != "supervisor" && e.Actor != "controller" { // whose work it is
		b.WriteString(p.dim(" (by " + proc.Plain(e.Actor) + ")"))
	}
	return b.String()
}

// eventType paints the type of an event by what it asks of the reader.
func (p paint) eventType(t event.Type, text string) string {
	_, what, _ := strings.Cut(string(t), ".")
	switch what {
	case "started", "ready", "released", "adopted", "resumed", "recovered", "completed":
		return p.green(text)
	case "restarting", "stopping", "stopped", "suspended", "draining", "compacted", "reset":
		return p.yellow(text)
	case "crashed", "start_failed", "quarantined", "gave_up", "lost", "abandoned", "escalated", "paused", "rejected",
		"failed", "degraded", "dropped",
		"limit_reached":
		return p.red(text)
	}
	return text
}
