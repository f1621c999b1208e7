package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func newLogs(s *streams) *cobra.Command {
	var r remote
	var follow, asJSON bool
	var n int
	cmd := &cobra.Command{
		Use:   "logs PATH",
		Short: "Show the output of an agent",
		Long: `Show the last lines of an agent's output, also of one that has ended, and with -f
those that follow until Ctrl-C.`,
		Args: onePath,
		RunE: func(_ *cobra.Command, args []string) error {
			if n < 0 {
				return usage(fmt.Errorf("--lines is %d, expected a number from 0 up", n))
			}
			return r.look(s, func(ctx context.Context, c *api.Client) error {
				out := json.NewEncoder(inertWriter{s.out})
				out.SetEscapeHTML(false)
				for line, err := range c.Logs(ctx, args[0], n, follow) {
					if err != nil {
						return err
					}
					if asJSON {
						err = out.Encode(api.LogLine{Line: line})
					} else {
						_, err = fmt.Fprintln(s.out, proc.Plain(line))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
		ValidArgsFunction: r.completePath(false),
	}
	r.longFlags(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().IntVarP(&n, "lines", "n", 100, "how many of the last lines")
	jsonFlag(cmd, &asJSON, "an object a line")
	return cmd
}
