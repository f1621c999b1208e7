package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
)

func NewReload(s *command.Streams) *cobra.Command {
	var r command.Remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration now",
		Long: `Make the daemon read its file now. It does so on its own when the file changes,
and on SIGHUP if it has no terminal.

What is no longer in the file is stopped, what is new is started, agents whose
command or environment changed are restarted, and everything else is changed in
place. A file with errors changes nothing; coppice status shows them. The name of
the project and where its state is kept cannot change while the daemon runs.`,
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				done, err := c.Reload(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return s.PrintJSON(done)
				}
				return s.PrintLines([]string{fmt.Sprint("reloaded: ", done)})
			})
		},
	}
	r.Flags(cmd)
	command.JSONFlag(cmd, &asJSON, "one object")
	return cmd
}
