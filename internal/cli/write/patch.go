package write

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/patch"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

func NewPatch(s *command.Streams) *cobra.Command {
	var dir string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "patch [FILE]",
		Short: "Apply the edits that a language model has written",
		Long: `Apply edits to the files below a directory. FILE is a diff, or the answer of a
language model with edits in it: unified diffs, search and replace blocks, whole
files, or a patch in the format of codex. Without FILE, or with "-", it is
standard input.

Line numbers, counts, white space and some lines of context may be wrong. What
fits two places, or none, is refused. Either all edits are applied, or none. The
exit code is 1 if they are not, and 2 for wrong arguments.

No project and no daemon are needed.`,
		Example: `  coppice patch answer.md
  git diff | coppice patch -C ../other --check`,
		Args: command.AtMostOne("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := "-"
			if len(args) > 0 {
				name = args[0]
			}
			r, err := applyPatch(s.In, name, dir, dryRun)
			if s.JSON {
				if err := s.PrintJSON(r); err != nil {
					return err
				}
			} else if lines := r.lines(); len(lines) > 0 {
				if err := s.PrintLines(lines...); err != nil {
					return err
				}
			}
			if err != nil && s.JSON {
				err = command.Exit(command.ExitFailure, nil)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&dir, "directory", "C", ".", "the directory that paths are relative to")
	flags.BoolVar(&dryRun, "check", false, "change nothing; only say what would be done")
	flags.BoolVar(&dryRun, "dry-run", false, "the same as --check")
	s.JSONFlag(cmd, "one object")
	_ = cmd.MarkFlagDirname("directory")
	return cmd
}

// patched is the JSON output of patch.
type patched struct {
	patch.Report
	Error string `json:"error,omitempty"`
}

// applyPatch applies the edits in a file, or in standard input.
func applyPatch(in io.Reader, name, dir string, dryRun bool) (r patched, err error) {
	r.Files = []patch.FileReport{}
	defer func() {
		if err != nil {
			r.Error = err.Error()
		}
	}()
	source := "<stdin>"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return r, err
		}
		defer f.Close()
		in, source = f, name
	}
	text, err := io.ReadAll(io.LimitReader(in, patch.MaxBytes+1))
	if err != nil {
		return r, fmt.Errorf("reading %s: %w", source, err)
	}
	p, err := patch.Parse(string(text))
	if syntax, ok := errors.AsType[*patch.SyntaxError](err); ok {
		return r, fmt.Errorf("%s:%d: %s", source, syntax.Line, syntax.Problem)
	}
	if err != nil {
		return r, err
	}
	if r.Report, err = patch.Apply(dir, p, dryRun); err == nil && r.Failed() {
		err = errors.New("nothing was applied")
	}
	return r, err
}

func (r *patched) lines() (all []string) {
	for _, l := range r.Lines() {
		all = append(all, plaintext.Line(l))
	}
	return all
}
