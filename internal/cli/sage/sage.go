// Package sage has the commands for Sage programs.
package sage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/sagehost"
	"github.com/coppice-dev/coppice/internal/scaffold"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/sage/lsp"
)

// New returns the group of commands for Sage programs.
func New(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sage",
		Short: "Write, check and test Sage programs",
		Long:  `Write, check, format and test programs in Sage, a language for agents and supervisors. Run one with: coppice run FILE.sg`,
	}
	cmd.AddCommand(NewNew(s), NewCheck(s), NewTest(s), NewFmt(s), NewLSP(s))
	return cmd
}

func NewLSP(s *command.Streams) *cobra.Command {
	var stdio bool
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Serve the language server protocol to editors",
		Long: `Serve the Language Server Protocol on standard input and output: diagnostics, hover,
completion, definition, references, rename, formatting and symbols. Editors start it
themselves.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			// A blocked read of standard input cannot be cancelled, but a pipe can be closed.
			in, from := io.Pipe()
			go func() {
				_, err := io.Copy(from, s.In)
				from.CloseWithError(err)
			}()
			return lsp.Serve(context.Background(), in, s.Out, lsp.Options{
				Version: command.Version(), Projects: sagehost.Projects{},
				Logger: slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn})),
			})
		},
	}
	cmd.Flags().BoolVar(&stdio, "stdio", true, "use the standard input and output, which is all there is")
	_ = cmd.Flags().MarkHidden("stdio") // editors pass it to every language server
	return cmd
}

func NewNew(s *command.Streams) *cobra.Command {
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
				fmt.Fprintf(s.Out, "wrote %s\n", plaintext.Line(p))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the `DIR` to write it to (default: NAME here)")
	cmd.MarkFlagDirname("dir")
	return cmd
}
