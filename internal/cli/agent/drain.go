package agent

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func newDrainCheck(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain-check",
		Short: "Test whether this agent is being drained",
		Long:  `Exit with 0 if this agent is asked to finish its work, and with 1 if not.`,
		Example: `  while ! coppice agent drain-check; do take-a-task; done
  coppice agent drain-ack`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			check, err := command.Call(command.AskAsAgent, drain.Check, api.None{})
			d := check.Drain
			switch {
			case err != nil:
				return err
			case s.JSON:
				err = s.PrintJSON(check)
			case d != nil:
				line := fmt.Sprintf("draining, %s left", timespan.Short(time.Duration(d.Left*float64(time.Second))))
				if d.Reason != "" {
					line += ": " + plaintext.Line(d.Reason)
				}
				err = s.PrintLines(line)
			}
			if err == nil && d == nil {
				err = command.Exit(command.ExitFailure, nil)
			}
			return err
		},
	}
	s.JSONFlag(cmd, "one object")
	return cmd
}

func newDrainAck() *cobra.Command {
	return &cobra.Command{
		Use:   "drain-ack",
		Short: "Report that this agent has drained",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := command.Call(command.AskAsAgent, drain.Acknowledge, api.None{})
			return err
		},
	}
}
