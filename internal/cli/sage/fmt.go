package sage

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/format"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax/printer"
)

func NewFmt(s *command.Streams) *cobra.Command {
	f := formatting{s: s, seen: map[string]bool{}}
	cmd := &cobra.Command{
		Use:   "fmt [PATH...]",
		Short: "Format Sage programs",
		Long: `Format Sage programs, and print the names of the changed files. PATH is a file, or a
directory whose *.sg files are formatted, except hidden files and symbolic links (default: the
current directory). - formats standard input to standard output.

A file with errors is not changed; its errors are shown, and the exit code is 1.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			for _, a := range args {
				f.path(a)
			}
			if f.failed || f.check && f.changed {
				return command.Exit(command.ExitFailure, nil)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&f.check, "check", false, "change nothing; exit with 1 if a file is not formatted")
	cmd.Flags().BoolVar(&f.diff, "diff", false, "change nothing; show what would be changed")
	return cmd
}

// formatting is the state of one run of fmt.
type formatting struct {
	s               *command.Streams
	check, diff     bool
	changed, failed bool
	seen            map[string]bool
	shown           bool // diagnostics were shown
}

func (f *formatting) path(path string) {
	if path == "-" {
		f.input()
		return
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		f.file(path)
		return
	}
	for file, err := range load.Walk(path) {
		if err != nil {
			f.fail(err)
			continue
		}
		f.file(file)
	}
}

func (f *formatting) file(path string) {
	if f.seen[filepath.Clean(path)] {
		return
	}
	f.seen[filepath.Clean(path)] = true
	c, diagnostics, err := format.Read(path)
	switch {
	case err != nil:
		f.fail(err)
		return
	case diagnostics != nil:
		f.show(diagnostics)
		return
	case !c.Needed():
		return
	}
	if !f.check && !f.diff {
		if err := c.Write(); err != nil {
			f.fail(err)
			return
		}
	}
	f.note(path, c.Before, c.After)
}

// input formats standard input.
func (f *formatting) input() {
	text, err := load.ReadAll(f.s.In)
	if err != nil {
		f.fail(fmt.Errorf("the standard input: %w", err))
		return
	}
	file := source.NewFile("<stdin>", text)
	after, diagnostics := printer.Format(file)
	switch {
	case diag.HasErrors(diagnostics):
		f.show(diagnostics)
	case f.check || f.diff:
		if after != text {
			f.note(file.Name, text, after)
		}
	default:
		f.print(after)
	}
}

// note reports that a file was changed, or would be.
func (f *formatting) note(name, before, after string) {
	f.changed = true
	name = plaintext.Line(name)
	if !f.diff {
		f.print(name + "\n")
		return
	}
	text := string(diff.Diff(name, []byte(before), name+" (formatted)", []byte(after)))
	if _, tty := terminal.Size(f.s.Out); tty {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = diag.Visible(lines[i])
		}
		text = strings.Join(lines, "\n")
	}
	f.print(text)
}

func (f *formatting) print(text string) {
	if _, err := io.WriteString(f.s.Out, text); err != nil {
		f.fail(fmt.Errorf("writing to the standard output: %w", err))
	}
}

func (f *formatting) fail(err error) {
	f.failed = true
	fmt.Fprintf(f.s.Err, "coppice: %s\n", plaintext.Line(err.Error()))
}

func (f *formatting) show(diagnostics []diag.Diagnostic) {
	f.failed = true
	if f.shown {
		fmt.Fprintln(f.s.Err)
	}
	f.shown = true
	_ = showDiagnostics(f.s.Err, diagnostics)
}
