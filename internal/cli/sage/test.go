package sage

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/foreground"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/sagehost"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/test"
)

func NewTest(s *command.Streams) *cobra.Command {
	t := testRun{s: s}
	cmd := &cobra.Command{
		Use:   "test [FILE|DIR]",
		Short: "Run the tests of a Sage program",
		Long: `Run the tests of the Sage project (grove.toml) here or in DIR: those in its program
and modules, and those in its *_test.sg files, each of which is a program of its own. With
FILE, run the tests in that file.

Each test has its own beliefs, and takes at most timeout_ms of [test] in grove.toml. Models and
tools must be mocked; they are never called. The exit code is 1 if a test fails or a program
has errors.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] == "" {
				return fmt.Errorf("expected one file or directory; see %s --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return t.run(strings.Join(args, ""))
		},
	}
	cmd.Flags().StringVar(&t.filter, "filter", "", "run only the tests with `TEXT` in file::name")
	s.JSONFlag(cmd, "one object for each test, as NDJSON")
	return cmd
}

// testRun is the state of one run of test.
type testRun struct {
	s              *command.Streams
	filter         string
	passed, failed int
	broken         bool // a program could not be tested
}

// testLine is the JSON output for one test.
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
	programs, err := load.FindTests(sagehost.Projects{}, path)
	if err := notFound(t.s, path, err); err != nil {
		return err
	}
	if err != nil {
		t.fail(err)
	}
	stop, ctx := foreground.NewStopper()
	defer stop.Listen()()
	begin := time.Now()
	test.Run(ctx, programs, test.Options{
		Path: path, Filter: t.filter, Result: t.result, Failed: t.fail,
		Invalid: func(diagnostics []diag.Diagnostic) {
			t.broken = true
			_ = showDiagnostics(t.s.Err, diagnostics)
		},
	})
	if stop.First() != 0 {
		return stop.Signalled()
	}
	if !t.s.JSON {
		result := "ok"
		if t.failed > 0 || t.broken {
			result = "failed"
		}
		fmt.Fprintf(t.s.Out, "%s: %d passed, %d failed (%v)\n", result, t.passed, t.failed,
			time.Since(begin).Round(time.Millisecond))
	}
	if t.failed > 0 || t.broken {
		return command.Exit(command.ExitFailure, nil)
	}
	return nil
}

// fail reports that a program could not be tested.
func (t *testRun) fail(err error) {
	t.broken = true
	fmt.Fprintf(t.s.Err, "coppice: %s\n", plaintext.Line(err.Error()))
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
	if t.s.JSON {
		w := json.NewEncoder(t.s.Out)
		w.SetEscapeHTML(false)
		_ = w.Encode(line)
		return
	}
	paint, _ := t.s.Paint()
	result := paint.Green("PASS")
	if r.Err != nil {
		result = paint.Red("FAIL")
	}
	fmt.Fprintf(t.s.Out, "%s %s::%s (%v)\n", result, plaintext.Line(at.Name), plaintext.Line(r.Name),
		r.Duration.Round(10*time.Microsecond))
	if r.Err == nil {
		return
	}
	for _, text := range []string{line.Error, strings.TrimRight(r.Output, "\n")} {
		for l := range strings.Lines(text) {
			fmt.Fprintf(t.s.Out, "     %s\n", plaintext.Line(strings.TrimSuffix(l, "\n")))
		}
	}
}
