// Package agent has the commands that agents call, and serves them as tools of the Model Context
// Protocol.
package agent

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/access"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/belief"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/mail"
	"github.com/coppice-dev/coppice/internal/cli/task"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func New(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Report and ask from inside an agent",
		Long: `Report and ask as an agent. These commands are for programs that Coppice runs:
variables in their environment say which agent calls (see: coppice agent env). While no daemon
answers, they wait for one.`,
	}
	cmd.AddCommand(newEnv(s), newReady(), newHeartbeat(), newRequestRestart(), newHook(s),
		newDrainCheck(s), newDrainAck(),
		belief.NewOwn(s), newOutcome(s), mail.NewOwn(s), newAsk(s), task.NewOwn(s))
	return cmd
}

func newEnv(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Show the identity of this agent",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			me, err := command.Self()
			if err != nil {
				return err
			}
			caller, err := command.Call(command.AskAsAgent, access.Whoami, api.None{})
			if err != nil {
				return err
			}
			return s.PrintLine(
				map[string]any{"agent": caller.Path, "incarnation": caller.Incarnation, "socket": me.Socket},
				fmt.Sprintf("%s=%s\n%s=%d\n%s=%s", proc.EnvAgent, plaintext.Line(caller.Path),
					proc.EnvIncarnation, caller.Incarnation, proc.EnvSocket, plaintext.Line(me.Socket)))
		},
	}
	s.JSONFlag(cmd, "one object")
	return cmd
}
