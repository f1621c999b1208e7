package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/spf13/cobra"
)

func newAgentDrainCheck(s *streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "drain-check",
		Short: "Test whether this agent is being drained",
		Long: `Succeed if this agent is to finish what it does: the exit code is 0 if somebody has
asked for that, and 1 if not.`,
		Example: `  while ! coppice agent drain-check; do take-a-task; done
  coppice agent drain-ack`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			var d *api.Drain
			err := askAsAgent(func(ctx context.Context, c *api.Client) (err error) {
				d, err = c.Draining(ctx)
				return err
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				err = s.printJSON(api.DrainCheck{Drain: d})
			case d != nil:
				line := fmt.Sprintf("draining, %s left", timespan.Short(time.Duration(d.Left*float64(time.Second))))
				if d.Reason != "" {
					line += ": " + proc.Plain(d.Reason)
				}
				err = s.printLines([]string{line})
			}
			if err == nil && d == nil {
				err = &exitError{code: exitFailure}
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON, "one object")
	return cmd
}

func newAgentDrainAck() *cobra.Command {
	return &cobra.Command{
		Use:   "drain-ack",
		Short: "Report that this agent has drained",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			return askAsAgent(func(ctx context.Context, c *api.Client) error { return c.AckDrain(ctx) })
		},
	}
}
