// Package write has the commands that write, check and explain coppice.toml.
package write

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/scaffold"
)

func NewInit(s *command.Streams) *cobra.Command {
	var template string
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a coppice.toml to start from",
		Long: `Write a commented coppice.toml that runs as it is, here or in DIR. An existing file is
not changed.

--template writes another one:
  pipeline   claude and codex take tasks through a pipeline in a git repository,
             from the plan to the merged change`,
		Example: `  coppice init
  coppice init --template pipeline`,
		Args: command.AtMostOne("directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			flag := "" // the flag with which other commands find the file
			if filepath.Clean(dir) != "." {
				flag = " -f " + filepath.Join(dir, config.FileName)
			}
			if cmd.Flags().Changed("template") {
				return initTemplate(s, dir, template, flag)
			}
			return initFile(s, dir, flag)
		},
	}
	cmd.Flags().StringVar(&template, "template", "", "write a template: "+
		strings.Join(scaffold.Templates(), ", "))
	cmd.RegisterFlagCompletionFunc("template",
		cobra.FixedCompletions(scaffold.Templates(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// initFile writes a coppice.toml that runs as it is.
func initFile(s *command.Streams, dir, flag string) error {
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
}

// initTemplate writes the files of a template.
func initTemplate(s *command.Streams, dir, template, flag string) error {
	if !slices.Contains(scaffold.Templates(), template) {
		return command.Usagef("unknown template %.40q, expected one of: %s", template,
			strings.Join(scaffold.Templates(), ", "))
	}
	paths, tests, err := scaffold.WriteTemplate(dir, template)
	if err != nil {
		return err
	}
	for _, path := range paths {
		fmt.Fprintf(s.Out, "wrote %s\n", path)
	}
	if tests == "" {
		fmt.Fprintln(s.Out, "write the command that tests a change into it, as test = \"...\" of both agents")
	} else {
		fmt.Fprintf(s.Out, "each change has to pass: %s\n", tests)
	}
	fmt.Fprintf(s.Out, "check it with: coppice validate%s\n", flag)
	return nil
}
