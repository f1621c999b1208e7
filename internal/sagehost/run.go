package sagehost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/sagehost/command"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/run"
	"github.com/coppice-dev/coppice/supervisor"
)

// RunOptions are the streams and callbacks of a program that runs without a daemon. All except Out
// and Err may be nil.
type RunOptions struct {
	Out, Err io.Writer // of print and print_err; not nil
	In       io.Reader // of read_line and read_all
	Trace    io.Writer // gets events of the program as NDJSON
	// OnEvent gets the events of the supervisors, Output the lines of processes.
	OnEvent func(supervisor.Event)
	Output  func(path string, incarnation uint64, line proc.Line)
	Logger  *slog.Logger
	// Fleet changes the agents of the project's coppice.toml.
	Fleet func(*spec.Tree) error
}

// Program is a program that runs without a daemon.
type Program struct {
	*run.Program
	store io.Closer // the store of beliefs; nil if they are in memory
}

// InUseError means that another run of a program uses its beliefs.
type InUseError struct{ Path string }

// Error names the file and the remedies.
func (e *InUseError) Error() string {
	return fmt.Sprintf("another run of this program keeps its beliefs in %s; stop it first, or give this one "+
		"another file by [persistence] path in grove.toml", e.Path)
}

// standalone implements host.Host for a program that runs without a daemon.
type standalone struct {
	host.Beliefs
	host.Output
	command.Runner
}

// Open prepares a program whose check has found no errors.
func Open(ctx context.Context, p *load.Program, info *check.Info, o RunOptions) (*Program, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	program := new(Program)
	beliefs, err := program.beliefs(ctx, p, info, o.Logger)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	options := run.Options{
		Host: standalone{Beliefs: beliefs, Output: host.NewOutput(o.Out, o.Err)},
		In:   o.In, Trace: o.Trace, OnEvent: o.OnEvent, Logger: o.Logger,
	}
	if len(p.Fleet.Agents) > 0 {
		fleet, err := newFleet(p.Fleet.File, o)
		if err != nil {
			return nil, errors.Join(err, program.Close())
		}
		options.Child = fleet.child
	}
	if program.Program, err = run.Open(p, info, options); err != nil {
		return nil, errors.Join(err, program.Close())
	}
	return program, nil
}

// beliefs opens the store that the project names.
func (p *Program) beliefs(
	ctx context.Context, at *load.Program, info *check.Info, l *slog.Logger,
) (host.Beliefs, error) {
	if at.Settings == nil {
		if name := persists(info); name != "" {
			l.Warn("beliefs are lost when the program ends; a grove.toml can name a file for them", "agent", name)
		}
		return host.NewMemory(), nil
	}
	path := at.Settings.Database
	if path == "" {
		return host.NewMemory(), nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the beliefs: %w", err)
	}
	store, err := sqlite.Open(ctx, path)
	if errors.Is(err, sqlite.ErrInUse) {
		return nil, &InUseError{path}
	}
	if err != nil {
		return nil, err
	}
	p.store = store
	beliefs, problems, err := belief.Open(ctx, store)
	if err != nil {
		return nil, err
	}
	for _, problem := range problems {
		l.Warn(problem.Message, "agent", problem.Path, "belief", problem.Name)
	}
	return Beliefs{Store: beliefs}, nil
}

// persists returns the name of an agent with persistent beliefs, or "" if there is none.
func persists(info *check.Info) string {
	for _, a := range info.Agents {
		if len(persistentBeliefs(a)) > 0 {
			return a.Object.Name
		}
	}
	return ""
}

// Close closes the program and its store. Nothing of the program may still run.
func (p *Program) Close() error {
	var err error
	if p.Program != nil {
		err = p.Program.Close()
	}
	if p.store != nil {
		err = errors.Join(err, p.store.Close())
	}
	return err
}
