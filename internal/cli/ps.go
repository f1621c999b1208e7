package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
)

func newPs(s *streams) *cobra.Command {
	var r remote
	var asJSON, allProjects bool
	cmd := &cobra.Command{
		Use:     "ps [PATH]",
		Aliases: []string{"ls"},
		Short:   "List supervisors and agents",
		Long: `List supervisors and agents as they are now, or those at and below PATH.

With --all-projects, list the projects of this user that have a daemon: its
process, how many agents run of how many, and how many need a person. A project
that does not answer within 3 s is shown with the reason.`,
		Args: atMostOnePath,
		RunE: func(_ *cobra.Command, args []string) error {
			if allProjects {
				if len(args) > 0 || r.file != "" {
					return usageError(errors.New("--all-projects lists all projects of this user; it " +
						"takes no PATH and no --file"))
				}
				return s.listProjects(asJSON)
			}
			return r.look(s, func(ctx context.Context, c *api.Client) error {
				nodes, err := status.List.Call(ctx, c, status.ListRequest{Path: strings.Join(args, "")})
				if err != nil {
					return err
				}
				if asJSON {
					return s.printJSON(nodes)
				}
				width, tty := terminal.Size(s.out)
				columns := narrow(nodes, append(psColumns(), statusColumn(nodes)...), width)
				return s.printLines(nodeTable(nodes, columns, 0, width, newPaint(tty)))
			})
		},
		ValidArgsFunction: r.completePath(false),
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&allProjects, "all-projects", false, "list the projects of this user that have a daemon")
	jsonFlag(cmd, &asJSON, "an array of objects")
	return cmd
}

func psColumns() []column {
	return []column{
		{"PATH", func(_ int, n status.Node, _ time.Time) string { return proc.Plain(n.Path) }},
		{"KIND", func(_ int, n status.Node, _ time.Time) string { return proc.Plain(n.Kind) }},
		stateColumn(),
		{"PID", func(_ int, n status.Node, _ time.Time) string {
			if n.PID == 0 {
				return "-"
			}
			return fmt.Sprint(n.PID)
		}},
		incarnationColumn(), startsColumn(), uptimeColumn(), nextAtColumn(), reasonColumn(),
	}
}
