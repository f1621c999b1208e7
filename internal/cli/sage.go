package cli

import "github.com/spf13/cobra"

// newSage groups the commands for people who write Sage programs.
func newSage(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sage",
		Short: "Write, check and test Sage programs",
		Long: `Write, check, format and test programs in Sage, a language of agents and
supervisors. Run one with: coppice run FILE.sg`,
	}
	cmd.AddCommand(newSageCommands(s)...)
	return cmd
}

func newSageCommands(s *streams) []*cobra.Command {
	return []*cobra.Command{newNew(s), newCheck(s), newTest(s), newFmt(s), newLSP(s)}
}

// oldSageCommands returns the commands of newSage under the names that they had
// before: coppice check is coppice sage check.
func oldSageCommands(s *streams) []*cobra.Command {
	old := newSageCommands(s)
	for _, cmd := range old {
		cmd.Hidden = true
	}
	return old
}
