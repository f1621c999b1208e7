package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/notice"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// hookTimeout bounds the wait for a daemon. It is short because hook runs often and blocks the
// agent.
const hookTimeout = 2 * time.Second

func newHook(s *command.Streams) *cobra.Command {
	var inject bool
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Show pending work and messages for this agent",
		Long: `Print pending work and messages for this agent, one item a line. The exit code is 0 if
there is any, and 1 if not. Tasks are printed each time: those that this incarnation has
claimed, then the first that it can claim.

With --inject the output is for the context of a model: it is marked as coming from Coppice, it
is empty if nothing is pending, and the exit code is always 0.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var notices []notice.Notice
			key := rand.Text()
			err := command.AskAsAgentFor(hookTimeout, func(ctx context.Context, c *api.Client) (err error) {
				notices, err = notice.Hook.Call(ctx, c, notice.HookRequest{Key: key})
				return err
			})
			switch {
			case err != nil && inject:
				fmt.Fprintf(s.Err, "coppice: %s\n", terminal.PlainText(err.Error()))
				return nil
			case err != nil:
				return err
			case inject && len(notices) > 0:
				return s.PrintLines(promptLines(notices)...)
			case inject:
				return nil
			case s.JSON || len(notices) > 0:
				err = s.Print(notices, func(terminal.Paint, int) (lines []string) {
					for _, n := range notices {
						lines = append(lines, noticeLine(n))
					}
					return lines
				})
			}
			if err == nil && len(notices) == 0 {
				err = command.Exit(command.ExitFailure, nil)
			}
			return err
		},
	}
	s.JSONFlag(cmd, "an array of objects")
	cmd.Flags().BoolVar(&inject, "inject", false, "print for the context of a model, and always exit with 0")
	cmd.MarkFlagsMutuallyExclusive("json", "inject")
	return cmd
}

func noticeLine(n notice.Notice) string {
	return plaintext.Line(n.Kind) + ": " + plaintext.Line(strings.ReplaceAll(n.Text, "\n", " "))
}

// promptLines marks notices as coming from Coppice. It escapes their text, so that no message can
// forge the end mark.
func promptLines(notices []notice.Notice) []string {
	lines := []string{"<coppice-notices>"}
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	for _, n := range notices {
		lines = append(lines, "- "+escape.Replace(noticeLine(n)))
	}
	return append(lines, "</coppice-notices>")
}
