package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/tools"
)

func newTest(s *streams) *cobra.Command {
	t := testRun{streams: s, programs: map[string]bool{}}
	cmd := &cobra.Command{
		Use:   "test [FILE|DIR]",
		Short: "Run the tests of a Sage program",
		Long: `Run the tests of a Sage program: those in the program of the project (grove.toml)
here, or in DIR, with all of its modules, and those in the files *_test.sg, each of
which is a program of its own; or those in FILE.

Each test is run by itself, with beliefs of its own, and takes at most timeout_ms
of [test] in grove.toml. Models and tools are never asked: what a test wants of
them it mocks. The exit code is 1 if a test fails or a program has errors.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] == "" {
				return fmt.Errorf("expected one file or directory; see %s --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			path := ""
			if len(args) > 0 {
				path = args[0]
			}
			return t.run(path)
		},
	}
	cmd.Flags().StringVar(&t.filter, "filter", "", "run only the tests with `TEXT` in file::name")
	cmd.Flags().BoolVar(&t.asJSON, "json", false, "print one object a test, as NDJSON")
	return cmd
}

// testRun is one run of coppice sage test.
type testRun struct {
	*streams
	filter         string
	asJSON         bool
	passed, failed int
	broken         bool            // a program could not be tested
	programs       map[string]bool // files whose tests have been run
}

// testLine is a test as --json shows it.
type testLine struct {
	File       string  `json:"file"`
	Line       int     `json:"line"`
	Name       string  `json:"name"`
	Passed     bool    `json:"passed"`
	DurationMS float64 `json:"duration_ms"`
	Error      string  `json:"error"`
	Output     string  `json:"output"`
}

func (t *testRun) run(path string) error {
	programs, err := load.FindTests(path)
	var bad config.Errors
	var none *load.NoProjectError
	switch {
	case errors.As(err, &bad):
		fmt.Fprintln(t.err, bad)
		return &exitError{code: exitConfig}
	case errors.Is(err, fs.ErrNotExist) && path == "":
		return noProgram(err)
	case errors.As(err, &none):
		return &exitError{exitConfig, errors.New(proc.Plain(err.Error()))}
	case err != nil:
		t.broken = true
		fmt.Fprintf(t.err, "coppice: %s\n", proc.Plain(err.Error()))
	}
	stop, ctx := newStopper()
	defer stop.listen()()
	begin := time.Now()
	for _, p := range programs {
		if ctx.Err() == nil {
			t.program(ctx, p, path)
		}
	}
	if sig := stop.first(); sig != 0 {
		return &exitError{exitSignalled + int(sig), fmt.Errorf("stopped by %s", stop.cause())}
	}
	if !t.asJSON {
		how := "ok"
		if t.failed > 0 || t.broken {
			how = "failed"
		}
		fmt.Fprintf(t.out, "%s: %d passed, %d failed (%v)\n", how, t.passed, t.failed,
			time.Since(begin).Round(time.Millisecond))
	}
	if t.failed > 0 || t.broken {
		return &exitError{code: exitFailure}
	}
	return nil
}

// program runs the tests of a program: of one that a person has named by a
// file, those of that file.
func (t *testRun) program(ctx context.Context, p *load.Program, path string) {
	only := ""
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		only = p.Name(p.Entry)
	}
	if t.programs[p.Name(p.Entry)] {
		return // a module of one before
	}
	p, info, diagnostics, err := checkProgram(p, path)
	if err != nil {
		t.broken = true
		fmt.Fprintf(t.err, "coppice: %s\n", proc.Plain(err.Error()))
		return
	}
	if diag.HasErrors(diagnostics) {
		t.broken = true
		_ = showDiagnostics(t.err, diagnostics)
		return
	}
	program, err := eval.Load(info)
	if err != nil {
		t.broken = true
		fmt.Fprintf(t.err, "coppice: %s: %s\n", proc.Plain(p.Name(p.Entry)), proc.Plain(err.Error()))
		return
	}
	o := eval.Options{Tools: tools.Settings{Root: p.Root, Dir: p.Root}}
	timeout := eval.DefaultTestTimeout
	if p.Grove != nil {
		o.Limit, timeout = p.Grove.Limit, p.Grove.TestTimeout
	}
	for i, test := range info.Tests {
		file := test.Position().Name
		switch {
		case t.programs[file], only != "" && file != only, !strings.Contains(file+"::"+test.Name.Value, t.filter):
			continue
		case ctx.Err() != nil:
			return
		}
		t.result(program.Test(ctx, i, o, timeout))
	}
	for _, m := range info.Modules {
		t.programs[m.File.Name] = true
	}
}

func (t *testRun) result(r eval.TestResult) {
	at := r.Span.Position()
	line := testLine{
		File: at.Name, Line: at.Line, Name: r.Name, Passed: r.Err == nil,
		DurationMS: float64(r.Duration.Microseconds()) / 1000, Output: r.Output,
	}
	if r.Err == nil {
		t.passed++
	} else {
		t.failed++
		line.Error = r.Err.Error()
	}
	if t.asJSON {
		w := json.NewEncoder(t.out)
		w.SetEscapeHTML(false)
		_ = w.Encode(line)
		return
	}
	_, tty := isTerminal(t.out)
	paint := newPaint(tty)
	how := paint.green("PASS")
	if r.Err != nil {
		how = paint.red("FAIL")
	}
	fmt.Fprintf(t.out, "%s %s::%s (%v)\n", how, proc.Plain(at.Name), proc.Plain(r.Name),
		r.Duration.Round(10*time.Microsecond))
	if r.Err == nil {
		return
	}
	for _, text := range []string{line.Error, strings.TrimRight(r.Output, "\n")} {
		if text == "" {
			continue
		}
		for l := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(t.out, "     %s\n", proc.Plain(l))
		}
	}
}
