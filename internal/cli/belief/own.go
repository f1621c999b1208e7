package belief

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
)

func NewOwn(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "belief",
		Short: "Read and set beliefs of the agent that calls this",
		Long: `Read and set beliefs of the agent that calls this: named JSON values. Persistent ones
are kept for its next incarnation.`,
	}
	cmd.AddCommand(newOwnGet(s), newOwnSet(s), newOwnRm(), newOwnLs(s))
	return cmd
}

func newOwnGet(s *command.Streams) *cobra.Command {
	var asString bool
	cmd := &cobra.Command{
		Use:   "get NAME...",
		Short: "Print the values of beliefs",
		Args:  command.Some("the name of a belief is missing; coppice agent belief ls lists them"),
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := command.Call(command.AskAsAgent, belief.ReadOwn, belief.OwnRequest{Names: args})
			if err != nil {
				return err
			}
			return printValues(s, list, len(args) == 1, asString)
		},
	}
	stringFlag(cmd, &asString, "print a string as it is, without quotes")
	return cmd
}

func newOwnLs(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the beliefs of this agent",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return command.Show(s, command.AskAsAgent, belief.ReadOwn, belief.OwnRequest{}, ownLines)
		},
	}
	s.JSONFlag(cmd, "an array of objects")
	return cmd
}

func ownLines(list []belief.Belief, p terminal.Paint, width int) []string {
	rows := make([][]string, len(list))
	for i, b := range list {
		rows[i] = row(b)
	}
	return terminal.Table(header, rows, width, terminal.BoldHeader(p))
}

func newOwnSet(s *command.Streams) *cobra.Command {
	var asString bool
	cmd := &cobra.Command{
		Use:   "set NAME=JSON... | set NAME -",
		Short: "Set beliefs of this agent in one step",
		Long: `Set beliefs of this agent, all of them or none. With - the value is read from
standard input. The command returns when it is durable: whatever is killed
afterwards, the next incarnation has it, if it is persistent.`,
		Example: `  coppice agent belief set check_count=3 'seen=["a","b"]'
  git log -1 --format=%s | coppice agent belief set subject --string -`,
		Args: func(_ *cobra.Command, args []string) error { return checkPairs(args) },
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := parsePairs(s.In, args, asString)
			if err != nil {
				return err
			}
			return changeOwn(belief.OwnChange{Set: set})
		},
	}
	stringFlag(cmd, &asString, "values are text, not JSON")
	return cmd
}

func newOwnRm() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove beliefs, or reset declared ones",
		Args:  command.Some("the name of a belief is missing"),
		RunE:  func(_ *cobra.Command, args []string) error { return changeOwn(belief.OwnChange{Delete: args}) },
	}
}

// changeOwn changes beliefs of this agent. A repeated attempt accepts that a belief is already
// gone, because the first may have removed it before its answer was lost.
func changeOwn(step belief.OwnChange) error {
	again := false
	return command.AskAsAgent(func(ctx context.Context, c *api.Client) error {
		_, err := belief.ChangeOwn.Call(ctx, c, step)
		if again && len(step.Delete) > 0 && errors.Is(err, api.ErrNotFound) {
			return nil
		}
		again = true
		return err
	})
}
