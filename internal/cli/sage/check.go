package sage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/sagehost"
	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/load"
)

func NewCheck(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE|DIR]",
		Short: "Check a Sage program without running it",
		Long: `Check a Sage program with all of its modules, without running it: the program that
starts with FILE, that of the project (grove.toml) in DIR or above it, or that of the project
here. A FILE that is a module of its project is checked as a part of it.

Each error and warning is shown with its place, the line and what to do. The exit code is 1 if
there is an error, and 0 with warnings alone.`,
		Args: AtMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			path := ""
			if len(args) > 0 {
				if path = args[0]; path == "" {
					return command.Usagef("the name of the file is empty, expected a file or a directory")
				}
			}
			program, err := findProgram(s, path)
			if err != nil {
				return err
			}
			program, info, diagnostics, err := program.CheckProject()
			if err != nil {
				return errors.New(plaintext.Line(err.Error()))
			}
			return reportCheck(s, program, info, diagnostics)
		},
	}
	s.JSONFlag(cmd, "the errors and warnings as NDJSON")
	return cmd
}

// notFound returns the error of a command if err means that path has no usable project; nil
// otherwise.
func notFound(s *command.Streams, path string, err error) error {
	if bad, ok := errors.AsType[config.Errors](err); ok {
		fmt.Fprintln(s.Err, bad)
		return command.Exit(command.ExitConfig, nil)
	}
	if errors.Is(err, fs.ErrNotExist) && path == "" {
		if file, e := command.FindConfig(""); e == nil { // the user may mean this fleet
			err = fmt.Errorf("%w; this command is for Sage programs, %s is checked by: coppice validate", err,
				filepath.Base(file))
		}
		return command.Exit(command.ExitConfig, err)
	}
	if _, ok := errors.AsType[*load.NoProjectError](err); ok {
		return command.Exitf(command.ExitConfig, "%s", plaintext.Line(err.Error()))
	}
	return nil
}

// findProgram finds the program that a path names, and prints notices about its settings.
func findProgram(s *command.Streams, path string) (*load.Program, error) {
	program, err := load.Find(sagehost.Projects{}, path)
	if err := notFound(s, path, err); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, errors.New(plaintext.Line(err.Error()))
	}
	if program.Settings != nil {
		for _, n := range program.Settings.Notices {
			fmt.Fprintln(s.Err, n)
		}
	}
	return program, nil
}

// reportCheck prints the diagnostics and the result.
func reportCheck(s *command.Streams, program *load.Program, info *check.Info, diagnostics []diag.Diagnostic) error {
	errs, warnings := 0, 0
	for _, d := range diagnostics {
		if d.Severity == diag.Error {
			errs++
		} else {
			warnings++
		}
	}
	if s.JSON {
		w := json.NewEncoder(s.Out)
		w.SetEscapeHTML(false)
		for _, d := range diagnostics {
			if err := w.Encode(diagnosticJSON(d)); err != nil {
				return fmt.Errorf("writing to the standard output: %w", err)
			}
		}
	} else if err := showDiagnostics(s.Err, diagnostics); err != nil {
		return fmt.Errorf("writing to the error output: %w", err)
	}
	name := plaintext.Line(program.Name(program.Entry))
	counts := []string{plaintext.Plural(len(info.Modules), "file")}
	if warnings > 0 {
		counts = append(counts, plaintext.Plural(warnings, "warning"))
	}
	if errs > 0 {
		counts = append([]string{plaintext.Plural(errs, "error")}, counts...)
		if !s.JSON {
			return fmt.Errorf("%s is not valid: %s", name, strings.Join(counts, ", "))
		}
		return command.Exit(command.ExitFailure, nil)
	}
	if s.JSON {
		return nil
	}
	_, err := fmt.Fprintf(s.Out, "%s is valid: %s\n", name, strings.Join(counts, ", "))
	return err
}

// jsonDiagnostic is the JSON output for one diagnostic. Lines and columns count from 1, columns in
// characters.
type jsonDiagnostic struct {
	File     string       `json:"file"`
	Line     int          `json:"line"`
	Column   int          `json:"column"`
	End      jsonPosition `json:"end"`
	Code     string       `json:"code"`
	Severity string       `json:"severity"`
	Message  string       `json:"message"`
	Help     string       `json:"help"`
}

type jsonPosition struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

func diagnosticJSON(d diag.Diagnostic) jsonDiagnostic {
	start, end := d.Span.Position(), d.Span.After().Position()
	return jsonDiagnostic{
		File: start.Name, Line: start.Line, Column: start.Column, End: jsonPosition{end.Line, end.Column},
		Code: d.Code, Severity: d.Severity.String(), Message: d.Message, Help: d.Help,
	}
}

// showDiagnostics shows diagnostics, in colour on a terminal.
func showDiagnostics(w io.Writer, diagnostics []diag.Diagnostic) error {
	_, tty := terminal.Size(w)
	return diag.Write(w, diagnostics, terminal.NewPaint(tty).On)
}
