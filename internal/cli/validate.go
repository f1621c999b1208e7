package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/daemon"
)

func newValidate(s *streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check coppice.toml without starting anything",
		Long: `Check coppice.toml, with the commands and directories that it names, without
starting anything. Each fault is one line, file:line:column; the exit code is 78.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := findConfig(file)
			if err != nil {
				return err
			}
			tree, notices, err := daemon.LoadTree(path)
			for _, n := range notices {
				fmt.Fprintln(s.err, n)
			}
			if err != nil {
				fmt.Fprintln(s.err, err)
				return &exitError{code: exitConfig}
			}
			agents, supervisors := 0, 0 // the root is no more than the project itself
			for _, c := range tree.All() {
				if c.Declared() != nil { // a pool is one agent in the file
					agents++
				} else {
					supervisors++
				}
			}
			fmt.Fprintf(s.out, "%s is valid: %s, %s\n", path, plural(agents, "agent"), plural(supervisors, "supervisor"))
			return nil
		},
	}
	configFlag(cmd, &file)
	return cmd
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
