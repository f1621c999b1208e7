package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/status"
)

func newTree(s *streams) *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tree [PATH]",
		Short: "Show the tree of supervisors and agents",
		Long:  `Show the tree of supervisors and agents as it is now, or the part of it below PATH.`,
		Args:  atMostOnePath,
		RunE: func(_ *cobra.Command, args []string) error {
			return r.look(s, func(ctx context.Context, c *api.Client) error {
				nodes, err := status.List.Call(ctx, c, status.ListRequest{Path: strings.Join(args, "")})
				if err != nil {
					return err
				}
				if asJSON {
					return s.printJSON(nodes)
				}
				width, tty := terminal.Size(s.out)
				columns := append(treeColumns(nodes), uptimeColumn(), nextAtColumn(), reasonColumn())
				columns = append(columns, statusColumn(nodes)...)
				return s.printLines(nodeTable(nodes, narrow(nodes, columns, width), 0, width, newPaint(tty)))
			})
		},
		ValidArgsFunction: r.completePath(false),
	}
	r.flags(cmd)
	jsonFlag(cmd, &asJSON, "an array of objects, as ps does")
	return cmd
}
