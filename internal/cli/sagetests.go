package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/sage/diag"
	"github.com/coppice-dev/coppice/internal/sage/eval"
	"github.com/coppice-dev/coppice/internal/sage/load"
	"github.com/coppice-dev/coppice/internal/sage/stage"
)

func newTest(s *streams) *cobra.Command {
	var asJSON, verbose bool
	var filter string
	cmd := &cobra.Command{
		Use:   "test [FILE|DIR]",
		Short: "Run the tests of a Sage program",
		Long: `Run the tests of a Sage program: those in the program itself, and those in files
*_test.sg of its project. Each runs alone, with beliefs, mocks and a mailbox of its
own; models are never asked, and tools only if they are mocked.

The exit code is 1 if a test fails or a file is not valid.`,
		Args: atMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			path := ""
			if len(args) > 0 {
				path = args[0]
			}
			return runTests(s, path, filter, verbose, asJSON)
		},
	}
	cmd.Flags().StringVar(&filter, "filter", "", "run only tests whose name contains `TEXT`")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what tests print, also of those that pass")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object for each test, as NDJSON")
	return cmd
}

// testRecord is a test as --json shows it.
type testRecord struct {
	File    string  `json:"file"`
	Name    string  `json:"name"`
	Line    int     `json:"line"`
	Passed  bool    `json:"passed"`
	Error   string  `json:"error,omitempty"`
	Output  string  `json:"output,omitempty"`
	Seconds float64 `json:"seconds"`
}

// runTests runs the tests of a program, and of the test files beside it.
func runTests(s *streams, path, filter string, verbose, asJSON bool) error {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	begin := time.Now()
	files, err := testFiles(s, path)
	if err != nil {
		return err
	}
	passed, failed, broken := 0, 0, 0
	for _, file := range files {
		p, n, err := s.testFile(ctx, file, filter, verbose, asJSON)
		passed, failed = passed+p, failed+n
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			fmt.Fprintf(s.err, "%s\n", proc.Plain(err.Error()))
			broken++
		}
	}
	if !asJSON {
		took := time.Since(begin).Round(time.Millisecond)
		if err := s.printLines([]string{fmt.Sprintf("%d passed, %d failed in %v", passed, failed, took)}); err != nil {
			return err
		}
	}
	switch {
	case broken > 0:
		return &exitError{exitFailure, fmt.Errorf("%s could not be tested", plural(broken, "program"))}
	case failed > 0:
		return &exitError{code: exitFailure}
	case passed == 0 && filter != "":
		return fmt.Errorf("no test has %q in its name", filter)
	}
	return nil
}

// testFiles are the programs whose tests are meant: a file, or the program of a
// project with the files *_test.sg in it.
func testFiles(s *streams, path string) ([]string, error) {
	program, err := findProgram(s, path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); path != "" && err == nil && !info.IsDir() {
		return []string{path}, nil
	}
	files := []string{program.Entry}
	for file, err := range load.Walk(program.Root) {
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(file, "_test"+load.Extension) && file != program.Entry {
			files = append(files, file)
		}
	}
	return files, nil
}

// testFile runs the tests of one program.
func (s *streams) testFile(ctx context.Context, path, filter string, verbose, asJSON bool) (passed, failed int, err error) {
	program, err := load.Find(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return 0, 0, err
	}
	info, diagnostics, err := program.Check(nil)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range diagnostics {
		if d.Severity == diag.Error {
			if err := showDiagnostics(s.err, diagnostics); err != nil {
				return 0, 0, err
			}
			return 0, 0, fmt.Errorf("%s is not valid, and none of its tests were run", program.Name(program.Entry))
		}
	}
	compiled, err := eval.Load(info)
	if err != nil {
		return 0, 0, err
	}
	settings, err := stage.Settings(program)
	if err != nil {
		return 0, 0, err
	}
	timeout := eval.DefaultTestTimeout
	if program.Grove != nil {
		timeout = program.Grove.TestTimeout
	}
	_, tty := isTerminal(s.out)
	paint := newPaint(tty)
	name := program.Name(program.Entry)
	for i, decl := range info.Tests {
		if !strings.Contains(decl.Name.Value, filter) {
			continue
		}
		r := compiled.Test(ctx, i, eval.Options{Tools: settings}, timeout)
		if ctx.Err() != nil {
			return passed, failed, nil
		}
		if r.Err == nil {
			passed++
		} else {
			failed++
		}
		if err := s.showTest(name, r, verbose, asJSON, paint); err != nil {
			return passed, failed, err
		}
	}
	return passed, failed, nil
}

func (s *streams) showTest(file string, r eval.TestResult, verbose, asJSON bool, p paint) error {
	if asJSON {
		t := testRecord{File: file, Name: r.Name, Line: r.Span.Position().Line, Passed: r.Err == nil, Output: r.Output, Seconds: r.Duration.Seconds()}
		if r.Err != nil {
			t.Error = r.Err.Error()
		}
		return s.printJSON(t)
	}
	word := p.green("PASS")
	if r.Err != nil {
		word = p.red("FAIL")
	}
	lines := []string{fmt.Sprintf("%s %s::%s %s", word, proc.Plain(filepath.ToSlash(file)), proc.Plain(r.Name), p.dim("("+r.Duration.Round(10*time.Microsecond).String()+")"))}
	if r.Err != nil {
		for line := range strings.SplitSeq(r.Err.Error(), "\n") {
			lines = append(lines, "     "+proc.Plain(line))
		}
	}
	if r.Err != nil || verbose {
		for line := range strings.Lines(r.Output) {
			lines = append(lines, "   "+p.dim("|")+" "+proc.Plain(strings.TrimSuffix(line, "\n")))
		}
	}
	return s.printLines(lines)
}
