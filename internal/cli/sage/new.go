package sage

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/scaffold"
	"github.com/coppice-dev/coppice/internal/spec"
)

func newNew(s *command.Streams) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a Sage project to start from",
		Long: `Write a Sage project into a directory NAME, or into DIR: grove.toml, a program with an
agent, a supervisor and a test (src/main.sg), README.md and .gitignore. No file is overwritten.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d arguments, expected the name of the project; see %s --help", len(args),
					cmd.CommandPath())
			}
			if fault := spec.CheckName(args[0]); fault != "" {
				return fmt.Errorf("%s; a directory is named with: %s NAME --dir DIR", fault, cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" && cmd.Flags().Changed("dir") {
				return command.Usagef("--dir is empty, expected a directory")
			}
			if dir == "" {
				dir = args[0]
			}
			paths, err := scaffold.Write(dir, args[0])
			if errors.Is(err, fs.ErrExist) {
				err = fmt.Errorf("%w; name another directory with --dir", err)
			}
			if err != nil {
				return err
			}
			for _, p := range paths {
				fmt.Fprintf(s.Out, "wrote %s\n", proc.Plain(p))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the `DIR` to write it to (default: NAME here)")
	cmd.MarkFlagDirname("dir")
	return cmd
}
