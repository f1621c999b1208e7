package look

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/status"
)

func NewTree(s *command.Streams) *cobra.Command {
	var r command.Remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tree [PATH]",
		Short: "Show the tree of supervisors and agents",
		Long:  `Show the tree of supervisors and agents as it is now, or the part of it below PATH.`,
		Args:  command.AtMostOnePath,
		RunE: func(_ *cobra.Command, args []string) error {
			return r.Look(s, func(ctx context.Context, c *api.Client) error {
				nodes, err := status.List.Call(ctx, c, status.ListRequest{Path: strings.Join(args, "")})
				if err != nil {
					return err
				}
				if asJSON {
					return s.PrintJSON(nodes)
				}
				width, tty := terminal.Size(s.Out)
				columns := append(show.TreeColumns(nodes), show.UptimeColumn(), show.NextAtColumn(),
					show.ReasonColumn())
				columns = append(columns, show.StatusColumn(nodes)...)
				return s.PrintLines(show.NodeTable(nodes, show.Narrow(nodes, columns, width), 0, width,
					terminal.NewPaint(tty)))
			})
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	command.JSONFlag(cmd, &asJSON, "an array of objects, as ps does")
	return cmd
}
