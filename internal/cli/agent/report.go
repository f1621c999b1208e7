package agent

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
)

func newAgentReady() *cobra.Command {
	return &cobra.Command{
		Use:   "ready",
		Short: "Report that this agent is ready",
		Long: `Say that this agent has started. Siblings that come after it wait for that if its
table in coppice.toml says: ready = { notify = true }.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return command.AskAsAgent(func(ctx context.Context, c *api.Client) error { return c.Ready(ctx) })
		},
	}
}

func newAgentHeartbeat() *cobra.Command {
	var beat api.Beat
	var progress int64
	cmd := &cobra.Command{
		Use:   "heartbeat",
		Short: "Report that this agent is alive, and its progress",
		Long: `Say that this agent lives and, with --progress or --note, how far it is. One that
is silent for longer than its heartbeat_timeout, or says the same for longer than
its progress_timeout, is nudged, and restarted if that does not help.`,
		Example: `  coppice agent heartbeat
  coppice agent heartbeat --progress 42 --note 'parsing page 42'`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("progress") {
				beat.Progress = &progress
			}
			return command.AskAsAgent(func(ctx context.Context, c *api.Client) error { return c.Heartbeat(ctx, beat) })
		},
	}
	cmd.Flags().Int64Var(&progress, "progress", 0, "how far it is: any `NUMBER` that changes when it gets on")
	cmd.Flags().StringVar(&beat.Note, "note", "", "what it does, as a `TEXT` of one line; 256 bytes are kept")
	return cmd
}

func newAgentRequestRestart() *cobra.Command {
	return &cobra.Command{
		Use:   "request-restart [REASON]",
		Short: "Request a restart of this agent",
		Long: `Ask for this agent to be restarted. It is stopped as by hand and started again,
which counts as no failure; once, however often it asks. The command returns when
that is certain, and the agent is stopped soon afterwards.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("a reason of several words has to be quoted")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return command.AskAsAgent(func(ctx context.Context,
				c *api.Client) error {
				return c.RequestRestart(ctx, strings.Join(args, ""))
			})
		},
	}
}
