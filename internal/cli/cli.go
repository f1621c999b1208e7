// Package cli implements the commands: each parses its flags, calls the packages
// that do the work, and prints what they return.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/config/grove"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/token"
)

// Exit codes.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitHuman     = 4 // a person is needed
	exitNoDaemon  = 69
	exitAuth      = 77
	exitConfig    = 78
	exitTimeout   = 124
	exitSignalled = 128 // plus the signal's number
)

// exitError is an error with an exit code of its own. Its message, if there is
// one, is printed as the last line.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// streams are where a command reads and writes.
type streams struct {
	in       *os.File
	out, err io.Writer
}

// Main runs the command that args name and returns the exit code.
func Main(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	proc.SealInherited()
	s := &streams{stdin, stdout, stderr}
	root := newRoot(s)
	root.SetArgs(frontFile(args))
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	if message := plainText(err.Error()); message != "" { // it may quote a damaged file
		s.complain(message)
	}
	return exitCode(err)
}

// frontFile gives a file that is named in front of the command the form that all
// commands know: of some, -f is another flag.
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

// exitCode is what an error means to the shell.
func exitCode(err error) int {
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, api.ErrNotFound):
		return exitNotFound
	case errors.Is(err, api.ErrDown), errors.Is(err, api.ErrStopping):
		return exitNoDaemon
	case errors.Is(err, token.ErrStale), errors.Is(err, api.ErrUnauthorized):
		return exitAuth
	case errors.Is(err, api.ErrInvalid):
		return exitUsage
	}
	return exitFailure
}

// NewCommand returns the command coppice with all commands below it.
func NewCommand(stdin *os.File, stdout, stderr io.Writer) *cobra.Command {
	return newRoot(&streams{stdin, stdout, stderr})
}

func newRoot(s *streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "coppice",
		Short: "Keep agents running",
		Long: `Coppice keeps agents running: it starts what coppice.toml names, restarts what
fails by the strategy of its supervisor, and stops everything in order.`,
		Example: `  coppice init        write a coppice.toml to start from
  coppice validate    check it
  coppice run         run what it says, until that has ended or Ctrl-C`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate(versionLine())
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.Flags().StringP("file", "f", "", "the `FILE` of the project, or its directory, for any command that has one")
	root.MarkFlagFilename("file", "toml")
	root.AddCommand(
		newRun(s), newValidate(s), newInit(s), newMan(s), newVersion(s),
		newUp(s), newDown(s), newReload(s), newPatrol(s), newDoctor(s), newBackup(s), newRestore(s), newInstall(s),
		newConfig(s), newSchema(s), newAdd(s),
		newStatus(s), newPs(s), newTree(s), newTop(s), newLogs(s), newAttach(s), newEvents(s), newExplain(s),
		newDrain(s), newFire(s),
		newBelief(s), newAgent(s), newMCP(s),
		newInbox(s), newAnswer(s), newMail(s, peopleMail()), newTask(s, peopleTasks()), newOrder(s),
		newSage(s),
	)
	root.AddCommand(newActs(s)...)
	root.AddCommand(oldSageCommands(s)...)
	root.SetFlagErrorFunc(unknownFlag)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), helpText(cmd)) })
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Short = "Generate the completion script for a shell"
	}
	asGroup(root)
	asUsage(root)
	return root
}

// asGroup gives the commands that only hold others something to do: show what
// they hold, and refuse what they do not. Cobra would take a command that is
// spelled wrong for a wish for help, and succeed.
func asGroup(cmd *cobra.Command) {
	if !cmd.HasSubCommands() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.DisableFlagsInUseLine = true
	for _, sub := range cmd.Commands() {
		asGroup(sub)
	}
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

// flagValues names what flags of a type take.
var flagValues = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number from 0 up", "float64": "a number",
	"bool": "true or false", "duration": "a duration such as 30s or 5m",
}

// unknownFlag says what is wrong with a flag, and which was probably meant.
func unknownFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		f := invalid.GetFlag()
		if expected := flagValues[f.Value.Type()]; expected != "" {
			err = fmt.Errorf("--%s is invalid: %q, expected %s", f.Name, invalid.GetValue(), expected)
		}
		return usageError(err)
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
	return usageError(fmt.Errorf("%w; %s", err, hint))
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
				return usageError(err)
			}
			if len(rest) > 0 {
				return usageError(unknownCommand(cmd, rest[0]))
			}
			cmd.InitDefaultHelpFlag() // Help lists them, but only a run adds them
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		},
	}
}

// noArgs refuses arguments. Most who give one mean the file.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup("path") != nil {
		return fmt.Errorf("unexpected argument %q; a node is named with: %s --path PATH", args[0], cmd.CommandPath())
	}
	if file := cmd.Flags().Lookup("file"); file != nil {
		flag := "--file"
		if file.Shorthand != "" {
			flag = "-" + file.Shorthand
		}
		return fmt.Errorf("unexpected argument %q; a file is named with: %s %s FILE", args[0], cmd.CommandPath(), flag)
	}
	return fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())
}

// asUsage gives wrong arguments, of any command, the exit code for that, and
// flags that exclude each other, too.
func asUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(check(cmd, args), cmd.ValidateFlagGroups()); err != nil {
				return usageError(err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		asUsage(sub)
	}
}

func usageError(err error) error { return &exitError{exitUsage, err} }

// configFlag adds the flag that names the file.
func configFlag(cmd *cobra.Command, path *string) { configFlagShort(cmd, path, "f") }

// configFlagShort is configFlag with another short form, or none.
func configFlagShort(cmd *cobra.Command, path *string, short string) {
	cmd.Flags().StringVarP(path, "file", short, "",
		"the `FILE` of the project, or its directory (default: the one here or above)")
	cmd.MarkFlagFilename("file", "toml")
}

// findFleet is findConfig for what is about a coppice.toml alone.
func findFleet(flag string) (string, error) {
	path, err := findConfig(flag)
	if err == nil && grove.Is(path) {
		err = &exitError{exitConfig, fmt.Errorf("this project has a %s and no coppice.toml; all of its settings "+
			"are in that file, see docs/grove.md", filepath.Base(path))}
	}
	return path, err
}

// nearestConfig is the coppice.toml in a directory or above, or a grove.toml that is
// nearer: the program of that project is then the whole fleet.
func nearestConfig(dir string) (string, error) {
	path, err := config.Find(dir)
	grove, e := grove.Find(dir)
	switch {
	case e == nil && (errors.Is(err, fs.ErrNotExist) || err == nil &&
		len(filepath.Dir(grove)) > len(filepath.Dir(path))):
		return grove, nil
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(e, fs.ErrNotExist):
		return "", e
	}
	return path, err
}

// findConfig returns the file that a command is about. The flag names it, or the
// directory that it is in.
func findConfig(flag string) (string, error) {
	dir := "."
	if flag != "" {
		if !isDir(flag) {
			return flag, nil
		}
		dir = flag
	}
	path, err := nearestConfig(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if alone, e := config.FindAidefile(dir); e == nil {
			path, err = alone, nil
		}
	}
	absolute, e := filepath.Abs(dir)
	if flag != "" && (errors.Is(err, fs.ErrNotExist) || err == nil && filepath.Dir(path) != absolute) {
		err = fmt.Errorf("no %s in %s: %w", config.FileName, flag, fs.ErrNotExist)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; write one with: coppice init", err)
	}
	if err != nil {
		return "", &exitError{exitConfig, err}
	}
	// The file in this very directory needs no long path in front of each error.
	if e == nil && filepath.Dir(path) == absolute {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
