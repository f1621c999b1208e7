package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/sage/diag"
	"github.com/coppice-dev/coppice/internal/sage/eval"
	"github.com/coppice-dev/coppice/internal/sage/load"
	"github.com/coppice-dev/coppice/internal/sage/oracle"
	"github.com/coppice-dev/coppice/internal/sage/tools"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/supervisor"
)

// isProgram reports whether the argument of coppice run means a Sage program.
func isProgram(arg string) bool {
	info, err := os.Stat(arg)
	return strings.HasSuffix(arg, load.Extension) || err == nil && info.IsDir()
}

// envTrace asks for a trace as --trace does.
const envTrace = "SAGE_TRACE"

// runProgram runs a Sage program from its start to its end.
func runProgram(s *streams, path string, trace bool) error {
	program, err := findProgram(s, path)
	if err != nil {
		return err
	}
	info, diagnostics, err := program.Check(nil)
	if err != nil {
		return errors.New(proc.Plain(err.Error()))
	}
	_ = showDiagnostics(s.err, diagnostics)
	if diag.HasErrors(diagnostics) {
		return &exitError{code: exitFailure}
	}
	code, err := eval.Load(info)
	if err != nil {
		return errors.New(proc.Plain(err.Error()))
	}
	o, err := surroundings(s, program, trace || asked(os.Getenv(envTrace)))
	if err != nil {
		return &exitError{exitConfig, err}
	}

	stop, ctx := newStopper()
	release := stop.listen() // before the first agent: no signal may leave one behind
	defer release()
	beliefs, done, err := openBeliefs(ctx, program)
	if err != nil {
		return err
	}
	o.Beliefs = beliefs
	out := &watched{w: s.out, broken: stop.broken}
	o.Out = out
	in := code.New(o)
	killed := make(chan struct{})
	stop.control(killer(killed))
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(in.Run(ctx), in.Close(), done()) }()
	select {
	case err = <-ended:
	case <-killed: // with what does not stop
		return &exitError{exitSignalled + int(stop.first()), fmt.Errorf("killed by %v", stop.first())}
	}
	var limit *supervisor.LimitError
	switch sig := stop.first(); {
	case sig != 0:
		return &exitError{exitSignalled + int(sig), fmt.Errorf("stopped by %v", sig)}
	case out.err != nil:
		return fmt.Errorf("writing to the standard output: %w", out.err)
	case errors.As(err, &limit):
		return &exitError{exitFailure, limit}
	case err != nil:
		return &exitError{exitFailure, errors.New(proc.Plain(err.Error()))}
	}
	return nil
}

func asked(value string) bool { return value != "" && value != "0" && value != "false" }

// surroundings are what a program finds around it.
func surroundings(s *streams, program *load.Program, trace bool) (eval.Options, error) {
	o := eval.Options{
		Err: s.err, In: s.in, Log: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Process: func(name string) (supervisor.ChildSpec, error) {
			return supervisor.ChildSpec{}, fmt.Errorf("%q is an agent of %s, which a program that is run alone does not start", name, config.FileName)
		},
	}
	var err error
	if o.Tools, err = (tools.Settings{Root: program.Root, Dir: program.Root}).Environ(os.LookupEnv); err != nil {
		return o, err
	}
	// Without one, only what asks a model fails.
	if o.Oracle, err = oracle.FromEnv(os.LookupEnv); err != nil && !errors.Is(err, oracle.ErrNotConfigured) {
		return o, err
	}
	if program.Grove != nil {
		o.Limit = program.Grove.Limit
		trace = trace && program.Grove.Trace != config.NoTrace
	}
	if trace {
		o.Trace = s.err
	}
	return o, nil
}

// openBeliefs opens what is kept of the project; done closes it.
func openBeliefs(ctx context.Context, program *load.Program) (beliefs eval.Beliefs, done func() error, err error) {
	if program.Grove == nil || program.Grove.Persistence.Backend == spec.Memory {
		return eval.NewMemory(), func() error { return nil }, nil
	}
	path := program.Grove.Persistence.Path.Value
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("making the directory of the beliefs, which [persistence] names: %w", err)
	}
	db, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the beliefs, which [persistence] names: %w", err)
	}
	book, _, err := belief.Open(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading the beliefs in %s: %w", path, err), db.Close())
	}
	return eval.InBook(book), db.Close, nil
}

// killer ends the program that does not stop.
type killer chan struct{}

// Stop is called twice for a kill.
func (k killer) Stop(bool) {
	select {
	case <-k:
	default:
		close(k)
	}
}

// watched is an output whose reader may go away.
type watched struct {
	w      io.Writer
	broken func()
	err    error // of the first write that failed
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil && w.err == nil {
		w.err = err
		w.broken()
	}
	return n, err
}
