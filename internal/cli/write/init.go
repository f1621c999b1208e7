// Package write has the commands that write, check and explain coppice.toml.
package write

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/config"
)

func NewInit(s *command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a coppice.toml to start from",
		Long: `Write a commented coppice.toml that runs as it is, here or in DIR. An existing file is
not changed.`,
		Args: command.AtMostOne("directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			flag := "" // the flag with which other commands find the file
			if filepath.Clean(dir) != "." {
				flag = " -f " + filepath.Join(dir, config.FileName)
			}
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return err
			}
			path := filepath.Join(dir, config.FileName)
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s already exists; check it with: coppice validate%s", path, flag)
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(config.Template)
			if err := errors.Join(err, f.Close()); err != nil {
				os.Remove(path) // a partial file would block the next attempt
				return err
			}
			fmt.Fprintf(s.Out, "wrote %s; run it with: coppice run%s\n", path, flag)
			return nil
		},
	}
}
