// Package cli implements the commands. Each parses its flags, calls other packages, and prints the
// result.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// Main runs the command that args name and returns the exit code.
func Main(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	proc.SealInherited()
	s := &command.Streams{In: stdin, Out: stdout, Err: stderr}
	args = frontFile(args)
	root := newRoot(s, args)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return command.ExitOK
	}
	if message := terminal.PlainText(err.Error()); message != "" { // it may quote hostile text
		s.Complain(message)
	}
	return command.ExitCode(err)
}

// frontFile rewrites -f FILE before the command as --file=FILE, because -f has another meaning for
// some commands.
func frontFile(args []string) []string {
	for i := 0; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		switch file, short := strings.CutPrefix(args[i], "-f"); {
		case short && file != "":
			args = slices.Concat(args[:i], []string{"--file=" + strings.TrimPrefix(file, "=")}, args[i+1:])
		case (short || args[i] == "--file") && i+1 < len(args):
			args = slices.Concat(args[:i], []string{"--file=" + args[i+1]}, args[i+2:])
		}
	}
	return args
}

// NewCommand returns the root command with all commands.
func NewCommand(stdin *os.File, stdout, stderr io.Writer) *cobra.Command {
	return newRoot(&command.Streams{In: stdin, Out: stdout, Err: stderr}, nil)
}

// newRoot returns the root command with the commands that args can need.
func newRoot(s *command.Streams, args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "coppice",
		Short: "Keep agents running",
		Long: `Coppice is a process supervisor for AI agents and other commands: it starts what
coppice.toml names, restarts what fails, and stops everything in order.`,
		Example: `  coppice init        write a coppice.toml to start from
  coppice validate    check it
  coppice run         run it, until the fleet has ended or Ctrl-C`,
		Version:       command.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate(versionLine())
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.Flags().StringP("file", "f", "", "the `FILE` of the project, or its directory, for any command that has one")
	root.MarkFlagFilename("file", "toml")
	needed := constructorsFor(args)
	for _, c := range needed {
		root.AddCommand(c.build(s))
	}
	root.SetFlagErrorFunc(unknownFlag)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), helpText(cmd)) })
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultHelpCmd()
	if len(needed) == 1 {
		root.CompletionOptions.DisableDefaultCmd = true
	} else {
		root.InitDefaultCompletionCmd()
		completion, _, _ := root.Find([]string{"completion"})
		completion.Short = "Generate the completion script for a shell"
	}
	setUpGroups(root)
	setUsageErrors(root)
	return root
}

// setUpGroups makes commands that only group others print their help, and all that group others
// reject unknown commands. cobra would show help for a misspelled command, and succeed.
func setUpGroups(cmd *cobra.Command) {
	if !cmd.HasSubCommands() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return nil
	}
	if cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		cmd.DisableFlagsInUseLine = true
	}
	for _, sub := range cmd.Commands() {
		setUpGroups(sub)
	}
}

// runsAlone reports whether a command does something without another one after it.
func runsAlone(cmd *cobra.Command) bool {
	return cmd.Runnable() && (!cmd.HasSubCommands() || !cmd.DisableFlagsInUseLine)
}

func unknownCommand(cmd *cobra.Command, name string) error {
	names := []string{"help"}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	if near := suggest.Nearest(name, names); near != "" {
		return fmt.Errorf("unknown command %q; did you mean %q?", name, cmd.CommandPath()+" "+near)
	}
	return fmt.Errorf("unknown command %q; see %s --help", name, cmd.CommandPath())
}

// unknownFlag explains a flag error, and suggests the flag that was probably meant.
func unknownFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		f := invalid.GetFlag()
		expected := map[string]string{
			"int": "a whole number", "int64": "a whole number", "uint64": "a whole number from 0 up",
			"float64": "a number", "bool": "true or false", "duration": "a duration such as 30s or 5m",
		}[f.Value.Type()]
		if expected != "" {
			err = fmt.Errorf("--%s is invalid: %q, expected %s", f.Name, invalid.GetValue(), expected)
		}
		return command.UsageError(err)
	}
	hint := fmt.Sprintf("see %s --help", cmd.CommandPath())
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := suggest.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			hint = fmt.Sprintf("did you mean --%s?", near)
		}
	}
	return command.Usagef("%w; %s", err, hint)
}

func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:                   "help [COMMAND]",
		Short:                 "Show the help of a command",
		DisableFlagsInUseLine: true,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string,
			_ cobra.ShellCompDirective) {
			if cmd, _, err := root.Find(args); err == nil {
				for _, sub := range cmd.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, sub.Name()+"\t"+sub.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil {
				return command.UsageError(err)
			}
			if len(rest) > 0 {
				return command.UsageError(unknownCommand(cmd, rest[0]))
			}
			cmd.InitDefaultHelpFlag() // cobra adds these flags only when it runs the command
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		},
	}
}

// setUsageErrors gives invalid arguments and flags that exclude each other the exit code for usage
// errors.
func setUsageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(check(cmd, args), cmd.ValidateFlagGroups()); err != nil {
				return command.UsageError(err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		setUsageErrors(sub)
	}
}
