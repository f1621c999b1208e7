// Package sage has the commands about programs in Sage, and runs them.
package sage

import (
	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
)

// New groups the commands for people who write Sage programs.
func New(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sage",
		Short: "Write, check and test Sage programs",
		Long:  `Write, check, format and test programs in Sage, a language for agents and supervisors. Run one with: coppice run FILE.sg`,
	}
	cmd.AddCommand(newSageCommands(s)...)
	return cmd
}

func newSageCommands(s *command.Streams) []*cobra.Command {
	return []*cobra.Command{newNew(s), newCheck(s), newTest(s), newFmt(s), newLSP(s)}
}

// OldCommands returns the commands of newSage under the names that they had
// before: coppice check is coppice sage check.
func OldCommands(s *command.Streams) []*cobra.Command {
	old := newSageCommands(s)
	for _, cmd := range old {
		cmd.Hidden = true
	}
	return old
}
