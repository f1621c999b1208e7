package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
)

func NewReload(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration now",
		Long: `Make the daemon read its file now. It does so by itself when the file changes, and on
SIGHUP if it has no terminal.

New agents are started, removed ones are stopped, and agents whose command or environment
changed are restarted. All other changes restart nothing. A file with errors changes nothing;
coppice status shows the errors. The name of the project and [persistence] cannot change while
the daemon runs.`,
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				done, err := c.Reload(ctx)
				if err != nil {
					return err
				}
				return s.PrintLine(done, fmt.Sprint("reloaded: ", done))
			})
		},
	}
	r.Flags(cmd)
	s.JSONFlag(cmd, "one object")
	return cmd
}
