package task

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/transfer"
	"github.com/coppice-dev/coppice/internal/task/transfer/backlog"
)

func newImport(s *command.Streams, w worker) *cobra.Command {
	var check, skipBad bool
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Import tasks from beads or a backlog.yaml",
		Long: `Import tasks from a file of beads: one JSON object a line, as in .beads/issues.jsonl
and from coppice task export. Without FILE, or with -, it reads standard input. Ids are kept.
An existing task is replaced only by a newer bead, so importing a file again changes nothing.
A FILE that ends in .yaml or .yml is a backlog of GLITCHLAB, or one task of it.

The whole file is checked first: if a line is wrong, or dependencies form a cycle, all errors
are listed and nothing is imported. --skip-bad skips wrong lines. Dependencies are written
before the tasks that need them: an interrupted import leaves no task that could be claimed too
early. Import the file again to complete it.`,
		Example: "  coppice task import .beads/issues.jsonl --check\n" +
			"  coppice task import .beads/issues.jsonl\n" +
			"  coppice task import .glitchlab/tasks/backlog.yaml",
		Args: command.AtMostOne("file"),
		ValidArgsFunction: cobra.FixedCompletions([]string{"jsonl", "yaml", "yml"},
			cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(_ *cobra.Command, args []string) error {
			file, size, done, err := wholeFile(s, args)
			if err != nil {
				return err
			}
			defer done()
			skipped := 0
			var skip func(*transfer.LineError)
			if skipBad {
				skip = func(e *transfer.LineError) {
					if skipped++; skipped <= 100 {
						fmt.Fprintf(s.Err, "coppice: skipped: %s\n", plaintext.Line(e.Error()))
					}
				}
			}
			name := "<stdin>"
			if len(args) > 0 && args[0] != "-" {
				name = args[0]
			}
			var plan *transfer.Plan
			switch filepath.Ext(name) {
			case ".yaml", ".yml":
				if skipBad {
					return command.Usagef("--skip-bad is for beads, not for %s", name)
				}
				plan, err = backlog.ReadPlan(name, file, size)
			default:
				plan, err = transfer.ReadPlan(name, file, size, skip)
			}
			if err != nil {
				return command.Usagef("nothing was imported:\n%s", terminal.PlainText(err.Error()))
			}
			if check {
				return s.PrintLines(fmt.Sprintf("%s, all valid", plaintext.Plural(len(plan.Order), "task")))
			}
			var sum task.ImportReport
			err = w.ask(func(ctx context.Context, c *api.Client) error {
				for batch, err := range plan.Batches() {
					if err != nil {
						return err
					}
					req := task.ImportRequest{By: w.by()}
					for _, line := range batch {
						req.Beads = append(req.Beads, line)
					}
					r, err := task.Import.Call(ctx, c, req)
					if err != nil {
						return err
					}
					sum.Created, sum.Updated, sum.Unchanged = sum.Created+r.Created, sum.Updated+r.Updated,
						sum.Unchanged+r.Unchanged
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("%w\nbefore that, %d tasks were added and %d changed; "+
					"fix this and import the file again", err, sum.Created, sum.Updated)
			}
			if s.JSON {
				return s.PrintJSON(map[string]int{"created": sum.Created, "updated": sum.Updated,
					"unchanged": sum.Unchanged, "skipped": skipped})
			}
			line := fmt.Sprintf("%s added, %d changed, %d unchanged", plaintext.Plural(sum.Created, "task"),
				sum.Updated, sum.Unchanged)
			if skipped > 0 {
				line += fmt.Sprintf(", %d skipped", skipped)
			}
			return s.PrintLines(line)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "only check the file")
	cmd.Flags().BoolVar(&skipBad, "skip-bad", false, "skip wrong lines, and import the rest")
	s.JSONFlag(cmd, "an object with created, updated, unchanged and skipped")
	return cmd
}

// wholeFile returns a file that can be read twice. It copies standard input and pipes to a
// temporary file.
func wholeFile(s *command.Streams, args []string) (file *os.File, size int64, done func(), err error) {
	file, done = s.In, func() {}
	if len(args) > 0 && args[0] != "-" {
		if file, err = os.Open(args[0]); err != nil {
			return nil, 0, nil, command.UsageError(err)
		}
		done = func() { file.Close() }
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = command.Usagef("%s is a directory; the file is called issues.jsonl", args[0])
	}
	if err == nil && info.Mode().IsRegular() && file != s.In {
		return file, info.Size(), done, nil
	}
	if err != nil {
		done()
		return nil, 0, nil, err
	}
	defer done()
	spool, err := os.CreateTemp("", "coppice-import-")
	if err != nil {
		return nil, 0, nil, err
	}
	os.Remove(spool.Name()) // it exists until it is closed
	if size, err = io.Copy(spool, file); err != nil {
		spool.Close()
		return nil, 0, nil, fmt.Errorf("reading the standard input: %w", err)
	}
	return spool, size, func() { spool.Close() }, nil
}

func newExport(s *command.Streams, w worker) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export all tasks as beads (NDJSON)",
		Long: `Write all tasks as beads, one JSON object a line in the order of ids, as in
.beads/issues.jsonl. An imported bead that has not changed is written byte for byte, with
unknown fields.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if output == "" || output == "-" {
				return w.export(s.Out)
			}
			// The rename makes the file appear complete or not at all.
			temp, err := os.CreateTemp(filepath.Dir(output), ".export-")
			if err != nil {
				return err
			}
			defer os.Remove(temp.Name())
			if err := errors.Join(w.export(temp), temp.Chmod(0o644), temp.Sync(), temp.Close()); err != nil {
				return err
			}
			return os.Rename(temp.Name(), output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the `FILE` to write (default: the standard output)")
	cmd.MarkFlagFilename("output", "jsonl")
	return cmd
}

// export writes all tasks as beads.
func (w worker) export(to io.Writer) error {
	out := bufio.NewWriter(to)
	err := w.look(func(ctx context.Context, c *api.Client) error {
		for after := ""; ; {
			page, err := task.Export.Call(ctx, c, task.ExportRequest{After: after})
			if err != nil {
				return err
			}
			for _, bead := range page.Beads {
				if _, err := out.Write(append(terminal.EscapeControls(bead), '\n')); err != nil {
					return err
				}
			}
			if after = page.Next; after == "" {
				return nil
			}
		}
	})
	return errors.Join(err, out.Flush())
}
