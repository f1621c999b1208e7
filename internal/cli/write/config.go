package write

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/config"
	aidefileconfig "github.com/coppice-dev/coppice/internal/config/aidefile"
	"github.com/coppice-dev/coppice/internal/config/grove"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

func NewConfig(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration and where it comes from",
		Long: `Show the configuration with included files and patches, and where each value comes
from.`,
	}
	cmd.AddCommand(newConfigShow(s), newConfigExplain(s))
	return cmd
}

// configuration is the JSON output of config show.
type configuration struct {
	Files    []string        `json:"files"`
	Revision string          `json:"revision"`
	Values   []config.Origin `json:"values"`
}

func newConfigShow(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the whole configuration and its origins",
		Long: `Show the whole configuration as one file, with the origin of each value, and what it
replaced, as a comment. If it is not valid, the errors are printed, too; the exit code is 78.`,
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			path, err := command.FindFleet(file)
			if err != nil {
				return err
			}
			l, invalid := config.LoadAll(path)
			if s.JSON {
				err = s.PrintJSON(configuration{l.Sources, l.Revision, l.Values()})
			} else {
				err = l.WriteTOML(terminal.InertWriter{W: s.Out})
			}
			if invalid != nil {
				fmt.Fprintln(s.Err, invalid)
				return command.Exit(command.ExitConfig, nil)
			}
			return err
		},
	}
	command.ConfigFlag(cmd, &file)
	s.JSONFlag(cmd, "one object with the arrays files and values")
	return cmd
}

func newConfigExplain(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "explain KEY",
		Short: "Show the origin of a configuration value",
		Long: `Show the file and line of a value, and what it replaced. KEY is for example
agent.web.env.MODEL, daemon.max_restarts, or agent.web for all keys of an agent. For a key that
is not set, it prints the default.`,
		Example: `  coppice config explain agent.web.env.MODEL`,
		Args:    command.One("key", "the key is missing; coppice config show shows them"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if path, err := command.FindConfig(file); err == nil && len(args) == 0 {
				l, _ := config.LoadUnchecked(path)
				return l.Keys(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := command.FindFleet(file)
			if err != nil {
				return err
			}
			l, invalid := config.LoadAll(path)
			found, err := l.Find(args[0])
			var unset *config.UnsetError
			switch {
			case errors.Is(err, config.ErrUnread):
				fmt.Fprintln(s.Err, invalid)
				return command.Exit(command.ExitConfig, nil)
			case errors.As(err, &unset):
				found = []config.Origin{}
			case err != nil:
				return command.Exit(command.ExitNotFound, err)
			}
			switch {
			case s.JSON:
				err = s.PrintJSON(found)
			case unset != nil:
				err = s.PrintLines(plaintext.Line(unset.Error()), "  "+plaintext.Line(unset.Meaning))
			default:
				err = s.PrintLines(originLines(found)...)
			}
			if invalid != nil {
				fmt.Fprintln(s.Err, invalid)
				return command.Exit(command.ExitConfig, nil)
			}
			return err
		},
	}
	command.ConfigFlag(cmd, &file)
	s.JSONFlag(cmd, "an array of the values")
	return cmd
}

func originLines(found []config.Origin) (lines []string) {
	line := func(format string, args ...any) { lines = append(lines, plaintext.Line(fmt.Sprintf(format, args...))) }
	for _, o := range found {
		if o.Removed {
			line("%s is not set", o.Key)
			line("  removed by %s", o.Place())
		} else {
			line("%s = %s", o.Key, o.TOML())
			line("  stated in %s", o.Place())
		}
		for _, before := range o.Overrode {
			line("  instead of %s in %s", before.TOML(), before.Place())
		}
	}
	if len(found) == 0 {
		line("it is set, and empty")
	}
	return lines
}

func NewSchema(s *command.Streams) *cobra.Command {
	schemas := map[string]func(io.Writer) error{config.FileName: config.WriteSchema,
		grove.FileName: grove.WriteSchema, aidefile.FileName: aidefileconfig.WriteSchema}
	return &cobra.Command{
		Use:   "schema [FILE]",
		Short: "Print the JSON Schema of coppice.toml",
		Long: `Print the JSON Schema (draft 7) of coppice.toml; FILE can be grove.toml or Aidefile.
Editors use it to complete and check TOML: write it to a file, and name that in the first line
of coppice.toml:

  #:schema ./coppice.schema.json

coppice validate also checks what depends on several values, other files and the machine.`,
		Example: `  coppice schema > coppice.schema.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := command.AtMostOne("file")(cmd, args); err != nil {
				return err
			}
			if len(args) == 1 && strings.EqualFold(args[0], aidefile.FileName) {
				args[0] = aidefile.FileName
			}
			if len(args) == 1 && schemas[args[0]] == nil {
				return fmt.Errorf("there is no schema of %q, expected %s, %s or %s", args[0], config.FileName,
					grove.FileName, aidefile.FileName)
			}
			return nil
		},
		ValidArgs: []string{config.FileName, grove.FileName, aidefile.FileName},
		RunE: func(_ *cobra.Command, args []string) error {
			name := config.FileName
			if len(args) == 1 {
				name = args[0]
			}
			return schemas[name](s.Out)
		},
	}
}
