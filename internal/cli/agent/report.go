package agent

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/health"
)

func newReady() *cobra.Command {
	return &cobra.Command{
		Use:   "ready",
		Short: "Report that this agent is ready",
		Long: `Report that this agent has started. With ready = { notify = true } in coppice.toml,
agents that depend on it wait for this.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := command.Call(command.AskAsAgent, health.Ready, api.None{})
			return err
		},
	}
}

func newHeartbeat() *cobra.Command {
	var beat health.Beat
	var progress int64
	cmd := &cobra.Command{
		Use:   "heartbeat",
		Short: "Report that this agent is alive, and its progress",
		Long: `Report that this agent is alive and, with --progress or --note, its progress. An agent
without a heartbeat for its heartbeat_timeout, or without new progress for its
progress_timeout, is nudged, and then restarted.`,
		Example: `  coppice agent heartbeat
  coppice agent heartbeat --progress 42 --note 'parsing page 42'`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("progress") {
				beat.Progress = &progress
			}
			_, err := command.Call(command.AskAsAgent, health.Heartbeat, beat)
			return err
		},
	}
	cmd.Flags().Int64Var(&progress, "progress", 0, "any `NUMBER` that changes with its progress")
	cmd.Flags().StringVar(&beat.Note, "note", "", "what it does, one line of `TEXT`; 256 bytes are kept")
	return cmd
}

func newRequestRestart() *cobra.Command {
	return &cobra.Command{
		Use:   "request-restart [REASON]",
		Short: "Request a restart of this agent",
		Long: `Ask for a restart of this agent. It is not a failure, and happens once, however often
the agent asks. The command returns when the request is durable; the agent is stopped soon
afterwards.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("a reason of several words has to be quoted")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			req := control.RestartRequest{Reason: strings.Join(args, "")}
			_, err := command.Call(command.AskAsAgent, control.RequestRestart, req)
			return err
		},
	}
}
