package run

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/offline"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

func NewBackup(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the state of the project to a file",
		Long: `Copy the state of the project at one moment to a file: beliefs, tasks, mail, counters
and events, but not the logs of agents. It works with and without a daemon. The file must not
exist; only its owner can read it.`,
		Example: `  coppice backup state-2026-11-23.db`,
		Args:    backupFile,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := command.FindConfig(file)
			if err != nil {
				return err
			}
			to, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			ctx, stop := command.UntilSignal(context.Background())
			defer stop()
			rev, err := offline.Backup(ctx, path, to)
			if err != nil {
				return coded(err)
			}
			_, err = fmt.Fprintf(s.Out, "%s has the state at revision %d\n", plaintext.Line(to), rev)
			return err
		},
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

func NewRestore(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the state of the project from a backup",
		Long: `Replace the state of the project with a backup. The backup is checked first; the
previous state is kept as state.db.replaced-TIME. Stop the daemon and its agents first, with
coppice down. The log begins a new epoch.`,
		Example: `  coppice down
  coppice restore state-2026-11-23.db
  coppice up -d`,
		Args: backupFile,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := command.FindConfig(file)
			if err != nil {
				return err
			}
			from, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			ctx, stop := command.UntilSignal(context.Background())
			defer stop()
			r, err := offline.Restore(ctx, path, from, slog.New(slog.NewTextHandler(s.Err, nil)))
			if err != nil {
				return coded(err)
			}
			fmt.Fprintf(s.Out, "%s restored, of revision %d\n", plaintext.Plural(r.Records, "record"), r.Rev)
			if r.Aside != "" {
				fmt.Fprintf(s.Out, "the state that was here is kept in %s\n", plaintext.Line(r.Aside))
			}
			return nil
		},
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

// backupFile requires exactly one argument.
func backupFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes one argument, the file of the backup", cmd.CommandPath())
	}
	return nil
}
