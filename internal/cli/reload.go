package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
)

func newReload(s *streams) *cobra.Command {
	var r remote
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
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return r.ask(func(ctx context.Context, c *api.Client) error {
				done, err := c.Reload(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return s.printJSON(done)
				}
				return s.printLines([]string{fmt.Sprint("reloaded: ", done)})
			})
		},
	}
	r.flags(cmd)
	jsonFlag(cmd, &asJSON, "one object")
	return cmd
}
