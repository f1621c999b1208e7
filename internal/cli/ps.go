package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func newPs(s *streams) *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ps [PATH]",
		Aliases: []string{"ls"},
		Short:   "List supervisors and agents",
		Long:    `List supervisors and agents as they are now, or those at and below PATH.`,
		Args:    atMostOnePath,
		RunE: func(_ *cobra.Command, args []string) error {
			return r.look(s, func(ctx context.Context, c *api.Client) error {
				nodes, err := c.Nodes(ctx, strings.Join(args, ""))
				if err != nil {
					return err
				}
				if asJSON {
					return s.printJSON(nodes)
				}
				width, tty := isTerminal(s.out)
				columns := narrow(nodes, append(psColumns(), statusColumn(nodes)...), width)
				return s.printLines(nodeTable(nodes, columns, 0, width, newPaint(tty)))
			})
		},
		ValidArgsFunction: r.completePath(false),
	}
	r.flags(cmd)
	jsonFlag(cmd, &asJSON, "an array of objects")
	return cmd
}

func psColumns() []column {
	return []column{
		{"PATH", func(_ int, n api.Node, _ time.Time) string { return proc.Plain(n.Path) }},
		{"KIND", func(_ int, n api.Node, _ time.Time) string { return proc.Plain(n.Kind) }},
		stateColumn(),
		{"PID", func(_ int, n api.Node, _ time.Time) string {
			if n.PID == 0 {
				return "-"
			}
			return fmt.Sprint(n.PID)
		}},
		incarnationColumn(), restartsColumn(), windowColumn(), uptimeColumn(), nextAtColumn(), reasonColumn(),
	}
}
