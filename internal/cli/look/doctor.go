package look

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/doctor"
)

func NewDoctor(s *command.Streams) *cobra.Command {
	var file string
	var fix bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what the daemon depends on",
		Long: `Check the file, the daemon, its lock and socket, each record of the store, running
agents, the disk, and programs that some agents need. Without a daemon, --fix repairs a damaged
store (the old file is kept) and stops agents that are not in the file. The exit code is 1 if
there is a problem.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := command.FindConfig(file)
			if err == nil && fix {
				err = command.OnlyPeople(path, "coppice doctor --fix")
			}
			if err != nil {
				return err
			}
			found, err := doctor.Check(context.Background(), path, fix)
			if err != nil {
				return err
			}
			err = s.Print(found, func(p terminal.Paint, _ int) []string { return findingLines(found, p) })
			isProblem := func(f doctor.Finding) bool { return f.Level == doctor.LevelProblem }
			if err == nil && slices.ContainsFunc(found, isProblem) {
				return command.Exit(command.ExitFailure, nil)
			}
			return err
		},
	}
	command.ConfigFlag(cmd, &file)
	cmd.Flags().BoolVar(&fix, "fix", false, "repair what can be repaired")
	s.JSONFlag(cmd, "JSON")
	return cmd
}

func findingLines(found []doctor.Finding, p terminal.Paint) (lines []string) {
	for _, f := range found {
		level := fmt.Sprintf("%-8s", f.Level)
		switch f.Level {
		case doctor.LevelOK, doctor.LevelFixed:
			level = p.Green(level)
		case doctor.LevelWarning:
			level = p.Yellow(level)
		default:
			level = p.Red(level)
		}
		details := strings.Join(terminal.PlainLines(f.Detail), "\n"+strings.Repeat(" ", 19))
		line := fmt.Sprintf("%s %-9s %s", level, f.Check, details)
		if f.Fix != "" {
			line += p.Dim("; " + f.Fix)
		}
		lines = append(lines, line)
	}
	return lines
}
