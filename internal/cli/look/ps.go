// Package look has the commands that show what runs and why.
package look

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
)

func NewPs(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var allProjects bool
	cmd := &cobra.Command{
		Use:     "ps [PATH]",
		Aliases: []string{"ls"},
		Short:   "List supervisors and agents",
		Long: `List supervisors and agents as they are now, or those at and below PATH.

With --all-projects, list the projects of this user that have a daemon: its
process, how many agents run of how many, and how many need a person. A project
that does not answer within 3 s is shown with the reason.`,
		Args: command.AtMostOne("path"),
		RunE: func(_ *cobra.Command, args []string) error {
			if allProjects {
				if len(args) > 0 || r.File != "" {
					return command.Usagef("--all-projects lists all projects of this user; it " +
						"takes no PATH and no --file")
				}
				return listProjects(s)
			}
			return listNodes(s, r, args, psColumns)
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	cmd.Flags().BoolVar(&allProjects, "all-projects", false, "list the projects of this user that have a daemon")
	s.JSONFlag(cmd, "an array of objects")
	return cmd
}

// listNodes prints all nodes, or those at and below a path. It adds a column for the status texts
// of agents.
func listNodes(s *command.Streams, r *command.Remote, path []string, columns func([]status.Node) []show.Column) error {
	return command.Show(s, r.Look, status.List, status.ListRequest{Path: strings.Join(path, "")},
		func(nodes []status.Node, p terminal.Paint, width int) []string {
			all := show.Narrow(nodes, append(columns(nodes), show.StatusColumn(nodes)...), width)
			return show.NodeTable(nodes, all, 0, width, p)
		})
}

// psColumns returns the columns of ps.
func psColumns(nodes []status.Node) []show.Column {
	return slices.Concat([]show.Column{
		show.NodeColumn("PATH", func(n status.Node) string { return plaintext.Line(n.Path) }),
		show.NodeColumn("KIND", func(n status.Node) string { return plaintext.Line(n.Kind) }),
		show.StateColumn(),
		show.NodeColumn("PID", func(n status.Node) string {
			if n.PID == 0 {
				return "-"
			}
			return fmt.Sprint(n.PID)
		}),
	}, show.HostColumn(nodes), []show.Column{
		show.IncarnationColumn(), show.StartsColumn(), show.UptimeColumn(), show.NextAtColumn(), show.ReasonColumn(),
	})
}
