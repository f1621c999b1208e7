package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// kindLog is the kind of a log that was kept of an agent that is gone.
const kindLog worktree.Kind = "log"

// garbageReport is the answer of coppice gc.
type garbageReport struct {
	DryRun bool            `json:"dry_run"` // nothing was deleted
	Items  []worktree.Item `json:"items"`
	Bytes  int64           `json:"bytes"` // of all items
}

func NewGC(s *command.Streams) *cobra.Command {
	var file string
	var dry bool
	var o worktree.GarbageOptions
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Delete what is no longer needed",
		Long: `Delete what the project no longer needs: git worktrees of attempts that have ended,
branches of attempts and parked work that are merged, leftovers of crashes, and logs of
removed agents that are older than a week. Uncommitted changes and commits of a worktree
are parked below refs/coppice/parked/ before it is deleted. Nothing that a process uses is
deleted. It works with and without a daemon.`,
		Example: `  coppice gc --dry-run   # only list it`,
		Args:    command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := command.FindConfig(file)
			if err == nil && !dry {
				err = command.OnlyPeople(path, "coppice gc")
			}
			if err != nil {
				return err
			}
			p, err := project.Open(path)
			if err != nil {
				return err
			}
			ctx, stop := command.UntilSignal(context.Background())
			defer stop()
			items, failed := collectGarbage(ctx, path, p, o, dry)
			report := garbageReport{DryRun: dry, Items: items}
			for _, i := range items {
				report.Bytes += i.Bytes
			}
			err = s.Print(report, func(p terminal.Paint, width int) []string { return report.lines(p, width) })
			return errors.Join(failed, err)
		},
	}
	command.ConfigFlag(cmd, &file)
	cmd.Flags().BoolVarP(&dry, "dry-run", "n", false, "list what would be deleted, and delete nothing")
	cmd.Flags().BoolVar(&o.Parked, "parked", false, "also delete work that was parked more than 30 days ago")
	s.JSONFlag(cmd, "JSON")
	return cmd
}

// collectGarbage deletes the garbage of the project of a file and returns what it has deleted; in a dry run, what it
// would delete. Names in the directory of the project are relative to it. With an error, the rest was done.
func collectGarbage(ctx context.Context, file string, p project.Project, o worktree.GarbageOptions, dry bool,
) (items []worktree.Item, err error) {
	if _, e := os.Lstat(p.State); e == nil {
		if err := p.Check(); err != nil {
			return nil, err
		}
	}
	items, err = collectWorktrees(ctx, p.Dir, p.Worktrees(), o, dry)
	others, e := repositories(file)
	err = errors.Join(err, e)
	for _, dir := range others {
		more, e := collectWorktrees(ctx, dir, "", o, dry)
		err = errors.Join(err, e)
		for _, item := range more {
			known := func(i worktree.Item) bool { return i.Kind == item.Kind && i.Name == item.Name }
			if !slices.ContainsFunc(items, known) {
				items = append(items, item)
			}
		}
	}
	for _, dir := range []string{p.Slots(), p.Tmux()} {
		logs, e := overdueLogs(dir, dry)
		items, err = append(items, logs...), errors.Join(err, e)
	}
	if items == nil {
		items = []worktree.Item{} // an empty array in JSON
	}
	for i, item := range items {
		if rel, e := filepath.Rel(p.Dir, item.Name); e == nil && filepath.IsLocal(rel) && filepath.IsAbs(item.Name) {
			items[i].Name = rel
		}
	}
	return items, err
}

// collectWorktrees deletes the garbage of the repository of a directory, and of the worktrees that are in another one;
// by default in that of the repository.
func collectWorktrees(ctx context.Context, dir, trees string, o worktree.GarbageOptions, dry bool,
) (items []worktree.Item, err error) {
	repo, err := worktree.OpenExisting(ctx, dir, worktree.Options{Dir: trees})
	switch {
	case errors.Is(err, worktree.ErrNotRepo), errors.Is(err, worktree.ErrNoCommit), errors.Is(err, exec.ErrNotFound):
		return nil, nil // it has no worktrees
	case err != nil:
		return nil, err
	}
	items, err = repo.Garbage(ctx, o)
	if !dry {
		var e error
		items, e = repo.Collect(ctx, items, o)
		err = errors.Join(err, e)
	}
	return items, err
}

// repositories returns the repositories of the pipelines of a file, which may be in other places than the project.
func repositories(file string) (all []string, err error) {
	tree, _, err := load.Tree(file)
	if err != nil {
		return nil, fmt.Errorf("the repositories of pipelines were not looked at: %w", err)
	}
	for _, c := range tree.All() {
		if a := c.Declared(); a != nil && a.Pipeline != nil && !slices.Contains(all, a.Pipeline.Repository) {
			all = append(all, a.Pipeline.Repository)
		}
	}
	return all, nil
}

// overdueLogs deletes, or only lists, the logs of removed agents that are over the bounds.
func overdueLogs(dir string, dry bool) (items []worktree.Item, err error) {
	overdue, err := slots.Overdue(dir, time.Now())
	for _, log := range overdue {
		item := worktree.Item{
			Kind: kindLog, Name: log, Reason: "its agent was removed a week ago, or later ones fill the room",
			Bytes: worktree.DiskUsage(log),
		}
		if !dry {
			if e := os.RemoveAll(log); e != nil {
				err = errors.Join(err, e)
				continue
			}
		}
		items = append(items, item)
	}
	return items, err
}

func (r garbageReport) lines(p terminal.Paint, width int) []string {
	if len(r.Items) == 0 {
		return []string{"nothing to delete"}
	}
	rows := make([][]string, len(r.Items))
	for i, item := range r.Items {
		size := "-"
		if item.Bytes > 0 {
			size = humanize.IBytes(uint64(item.Bytes))
		}
		reason := item.Reason
		if item.Parked != "" {
			reason += "; its work is in " + item.Parked
		}
		name := strings.ReplaceAll(item.Name, "\n", " ")
		rows[i] = []string{string(item.Kind), size, plaintext.Line(name), plaintext.Line(reason)}
	}
	lines := terminal.Table([]string{"KIND", "SIZE", "NAME", "REASON"}, rows, width, terminal.BoldHeader(p))
	total := fmt.Sprintf("%s, %s", plaintext.Plural(len(r.Items), "item"), humanize.IBytes(uint64(r.Bytes)))
	if r.DryRun {
		return append(lines, "", total+" to delete")
	}
	return append(lines, "", total+" deleted")
}
