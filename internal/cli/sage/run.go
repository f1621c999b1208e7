package sage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/foreground"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/plaintext"
	projectload "github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/sagehost"
	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/load"
	sagerun "github.com/coppice-dev/coppice/sage/run"
	"github.com/coppice-dev/coppice/supervisor"
)

// Trace holds the flags that trace a Sage program.
type Trace struct {
	on   bool
	file string
}

// Environment variables for the same.
const (
	traceEnv     = "SAGE_TRACE"      // any value except 0: trace to standard error
	traceFileEnv = "SAGE_TRACE_FILE" // the file to append the trace to
)

func (t *Trace) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&t.on, "trace", false,
		"trace a Sage program as NDJSON on standard error (or "+traceEnv+"=1)")
	cmd.Flags().StringVar(&t.file, "trace-file", "", "append the trace to `FILE` instead (or "+traceFileEnv+")")
	cmd.MarkFlagFilename("trace-file")
}

// Open opens the output of the trace, which is nil without one, and returns a function that closes
// it.
func (t Trace) Open() (*os.File, func() error, error) {
	if file := cmp.Or(t.file, os.Getenv(traceFileEnv)); file != "" {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("opening the file of the trace: %w", err)
		}
		return f, f.Close, nil
	}
	if env := os.Getenv(traceEnv); t.on || env != "" && env != "0" {
		return os.Stderr, func() error { return nil }, nil
	}
	return nil, func() error { return nil }, nil
}

// AtMostOne accepts no argument or one.
func AtMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%d arguments, expected one file or directory; see %s --help", len(args), cmd.CommandPath())
	}
	return nil
}

// validProgram finds and checks a program, and shows its errors and warnings.
func validProgram(s *command.Streams, path string) (*load.Program, *check.Info, error) {
	program, err := findProgram(s, path)
	if err != nil {
		return nil, nil, err
	}
	program, info, diagnostics, err := program.CheckProject()
	if err != nil {
		return nil, nil, errors.New(plaintext.Line(err.Error()))
	}
	if len(diagnostics) > 0 {
		if err := showDiagnostics(s.Err, diagnostics); err != nil {
			return nil, nil, err
		}
	}
	if diag.HasErrors(diagnostics) {
		return nil, nil, fmt.Errorf("%s is not valid, and nothing was run", plaintext.Line(program.Name(program.Entry)))
	}
	return program, info, nil
}

// sageView shows a running Sage program: its output, and the events of its supervisors.
type sageView struct {
	json  *foreground.JSONView // nil without --json
	out   foreground.LineWriter
	err   foreground.LineWriter
	tty   bool // the output is a terminal
	paint terminal.Paint
	alone bool // an agent without a supervisor of its own
	root  string
}

// Write receives one line of program output, with its newline.
func (v *sageView) Write(p []byte) (int, error) {
	text := strings.TrimSuffix(string(p), "\n")
	switch {
	case v.json != nil:
		v.json.Put(foreground.Record{Time: time.Now(), Type: "agent.output", Path: v.root, Message: text,
			Data: foreground.OutputData("stdout", false)})
	case v.tty: // a model may have written it
		for line := range strings.SplitSeq(text, "\n") {
			v.out.WriteLine(plaintext.Line(line))
		}
	default:
		v.out.Write(p)
	}
	return len(p), nil
}

// output receives output of a child process of the program.
func (v *sageView) output(path string, incarnation uint64, line proc.Line) {
	if v.json != nil {
		v.json.Output(path, incarnation, line)
		return
	}
	v.out.WriteLine(show.OutputLine(path, plaintext.Line(line.Text), v.paint))
}

func (v *sageView) event(e supervisor.Event) {
	if v.json != nil {
		v.json.Event(e)
		return
	}
	switch e := e.(type) {
	case supervisor.SupervisorStarted, supervisor.SupervisorStopping, supervisor.ChildStopping:
		return
	case supervisor.ChildStarted:
		if !e.Restart {
			return
		}
	}
	if line := show.SupervisorLine(e, v.paint); line != "" && !v.alone {
		v.err.WriteLine(line)
	}
}

func (v *sageView) close() error {
	if v.json != nil {
		return v.json.Close(nil)
	}
	v.err.Close()
	return v.out.Close()
}

// Run runs a Sage program to its end, in a sandbox unless it is nil.
func Run(s *command.Streams, path string, trace Trace, in projectload.Sandbox) error {
	program, info, err := validProgram(s, path)
	if err == nil && in != nil {
		err = in.Program(program)
	}
	if err != nil {
		return err
	}
	if info.Entry == nil {
		return fmt.Errorf("%s runs nothing; end it with: run NAME;", plaintext.Line(program.Name(program.Entry)))
	}
	to, closeTrace, err := trace.Open()
	if err != nil {
		return err
	}
	defer closeTrace()
	stop, ctx := foreground.NewStopper()
	release := stop.Listen()
	defer release()
	_, tty := terminal.Size(s.Out)
	_, colour := terminal.Size(s.Err)
	v := &sageView{
		out: foreground.LineWriter{W: s.Out, Stop: stop}, err: foreground.LineWriter{W: s.Err, Stop: stop}, tty: tty,
		paint: terminal.NewPaint(colour), alone: info.Entry.Agent != nil,
	}
	if v.alone {
		v.root = info.Entry.Agent.Object.Name
	} else {
		v.root = info.Entry.Supervisor.Object.Name
	}
	if s.JSON {
		v.json = foreground.NewJSONView(s.Out, stop)
	}
	options := sagehost.RunOptions{
		Out: v, Err: s.Err, In: s.In, OnEvent: v.event, Output: v.output,
		Logger: slog.New(foreground.PlainLog{Level: slog.LevelWarn, Write: func(line []byte) { v.err.Write(line) }}),
	}
	if to != nil {
		options.Trace = to
	}
	if in != nil {
		options.Fleet = in.Tree
	}
	on, err := sagehost.Open(context.Background(), program, info, options)
	if err != nil {
		if bad, ok := errors.AsType[config.Errors](err); ok {
			fmt.Fprintln(s.Err, bad)
			return command.Exit(command.ExitConfig, nil)
		}
		if _, ok := errors.AsType[*sagerun.SettingsError](err); ok {
			return command.Exit(command.ExitConfig, err)
		}
		return err
	}
	stop.Control(on)
	defer pauseOnStop(on)()
	asked := context.AfterFunc(ctx, func() { on.Stop(false) })
	failed := on.Run(context.Background())
	asked()
	if err := on.Close(); err != nil && failed == nil {
		failed = err
	}
	if err := v.close(); err != nil && failed == nil {
		failed = fmt.Errorf("writing to the standard output: %w", err)
	}
	if stop.First() != 0 {
		return stop.Signalled()
	}
	if failed != nil {
		return errors.New(plaintext.Line(failed.Error()))
	}
	return nil
}
