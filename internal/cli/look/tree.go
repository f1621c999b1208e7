package look

import (
	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/status"
)

func NewTree(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "tree [PATH]",
		Short: "Show the tree of supervisors and agents",
		Long:  `Show the tree of supervisors and agents as it is now, or the part of it below PATH.`,
		Args:  command.AtMostOne("path"),
		RunE: func(_ *cobra.Command, args []string) error {
			return listNodes(s, r, args, func(nodes []status.Node) []show.Column {
				return append(show.TreeColumns(show.Branches(nodes)),
					show.UptimeColumn(), show.NextAtColumn(), show.ReasonColumn())
			})
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	s.JSONFlag(cmd, "an array of objects, as ps does")
	return cmd
}
