package look

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/doctor"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
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
			bad := false
			for _, f := range found {
				bad = bad || f.Level == doctor.LevelProblem
			}
			if s.JSON {
				err = json.NewEncoder(s.Out).Encode(found)
			} else {
				err = printFindings(s, found)
			}
			if err == nil && bad {
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

func printFindings(s *command.Streams, found []doctor.Finding) error {
	_, tty := terminal.Size(s.Out)
	p := terminal.NewPaint(tty)
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
		details := strings.Split(f.Detail, "\n")
		for i := range details {
			details[i] = proc.Plain(details[i])
		}
		line := fmt.Sprintf("%s %-9s %s", level, f.Check, strings.Join(details, "\n"+strings.Repeat(" ", 19)))
		if f.Fix != "" {
			line += p.Dim("; " + f.Fix)
		}
		if _, err := fmt.Fprintln(s.Out, line); err != nil {
			return err
		}
	}
	return nil
}
