package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
)

func newVersion(s *command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(s.Out, versionLine())
			return err
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("coppice %s (%s, %s/%s)\n", command.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
