// Package look has the commands that show what runs, and why something does not.
package look

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

func NewPs(s *command.Streams) *cobra.Command {
	var r command.Remote
	var asJSON, allProjects bool
	cmd := &cobra.Command{
		Use:     "ps [PATH]",
		Aliases: []string{"ls"},
		Short:   "List supervisors and agents",
		Long: `List supervisors and agents as they are now, or those at and below PATH.

With --all-projects, list the projects of this user that have a daemon: its
process, how many agents run of how many, and how many need a person. A project
that does not answer within 3 s is shown with the reason.`,
		Args: command.AtMostOnePath,
		RunE: func(_ *cobra.Command, args []string) error {
			if allProjects {
				if len(args) > 0 || r.File != "" {
					return command.Usagef("--all-projects lists all projects of this user; it " +
						"takes no PATH and no --file")
				}
				return listProjects(s, asJSON)
			}
			return r.Look(s, func(ctx context.Context, c *api.Client) error {
				nodes, err := status.List.Call(ctx, c, status.ListRequest{Path: strings.Join(args, "")})
				if err != nil {
					return err
				}
				if asJSON {
					return s.PrintJSON(nodes)
				}
				width, tty := terminal.Size(s.Out)
				columns := show.Narrow(nodes, append(psColumns(), show.StatusColumn(nodes)...), width)
				return s.PrintLines(show.NodeTable(nodes, columns, 0, width, terminal.NewPaint(tty)))
			})
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	cmd.Flags().BoolVar(&allProjects, "all-projects", false, "list the projects of this user that have a daemon")
	command.JSONFlag(cmd, &asJSON, "an array of objects")
	return cmd
}

func psColumns() []show.Column {
	return []show.Column{
		{Name: "PATH", Text: func(_ int, n status.Node, _ time.Time) string { return proc.Plain(n.Path) }},
		{Name: "KIND", Text: func(_ int, n status.Node, _ time.Time) string { return proc.Plain(n.Kind) }},
		show.StateColumn(),
		{Name: "PID", Text: func(_ int, n status.Node, _ time.Time) string {
			if n.PID == 0 {
				return "-"
			}
			return fmt.Sprint(n.PID)
		}},
		show.IncarnationColumn(), show.StartsColumn(), show.UptimeColumn(), show.NextAtColumn(), show.ReasonColumn(),
	}
}
