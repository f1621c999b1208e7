package sagehost

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/config/grove"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/sage/load"
)

// Projects implements load.Projects with the files grove.toml and coppice.toml.
type Projects struct{}

// Settings reads the grove.toml in dir or above it.
func (Projects) Settings(dir string) (*load.Settings, error) { return new(recorder).Settings(dir) }

// recorder is a Projects that records the last grove.toml that was read.
type recorder struct {
	Projects
	grove *grove.Grove
}

func (r *recorder) Settings(dir string) (*load.Settings, error) {
	path, err := grove.Find(dir)
	if err != nil {
		return nil, err
	}
	if r.grove, err = grove.Load(path); err != nil {
		return nil, withFaults(err)
	}
	return settingsOf(path, r.grove), nil
}

func settingsOf(path string, g *grove.Grove) *load.Settings {
	s := &load.Settings{
		File: path, Entry: g.Entry.Value, Limit: g.Limit, Trace: g.Trace != grove.NoTrace,
		TestTimeout: g.TestTimeout,
		Divine:      load.Divine{Command: g.Divine.Command, Timeout: g.Divine.Timeout},
	}
	if g.Divine.Format != grove.PlainText {
		s.Divine.Format = g.Divine.Format.String()
	}
	if g.Persistence.Backend != spec.Memory {
		s.Database = g.Persistence.Path.Value
	}
	for _, n := range g.Notices {
		s.Notices = append(s.Notices, n.String())
	}
	return s
}

// Fleet reads the coppice.toml next to a grove.toml. Without one, it reads the nearest one above the
// program, and ignores it if it cannot be read or does not name the program.
func (Projects) Fleet(program string) (load.Fleet, error) {
	dir := filepath.Dir(program)
	if info, err := os.Stat(program); err == nil && info.IsDir() {
		file := filepath.Join(program, config.FileName)
		project, err := config.LoadUnchecked(file)
		if err == nil {
			return fleetOf(file, project.Tree), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return load.Fleet{}, withFaults(err)
		}
	}
	file, err := config.Find(dir)
	if err != nil {
		return load.Fleet{}, nil
	}
	project, err := config.LoadUnchecked(file)
	if err != nil || project.Tree.Root.Program == "" {
		return load.Fleet{}, nil
	}
	named, err := filepath.EvalSymlinks(project.Tree.Root.Program)
	if err != nil {
		return load.Fleet{}, nil
	}
	if real, err := filepath.EvalSymlinks(program); err != nil || real != named {
		return load.Fleet{}, nil
	}
	return fleetOf(file, project.Tree), nil
}

func fleetOf(file string, tree *spec.Tree) load.Fleet {
	f := load.Fleet{File: file}
	for _, node := range tree.All() {
		if node.Agent != nil {
			f.Agents = append(f.Agents, node.Name())
		}
	}
	return f
}

// fileError is an error about files with the method that load.Faults looks for.
type fileError struct {
	error
	all config.Errors
}

func withFaults(err error) error {
	if all, ok := errors.AsType[config.Errors](err); ok {
		return &fileError{err, all}
	}
	return err
}

func (e *fileError) Unwrap() error { return e.error }

// Faults returns the errors one by one.
func (e *fileError) Faults() []load.Fault {
	faults := make([]load.Fault, len(e.all))
	for i, one := range e.all {
		faults[i] = load.Fault{
			File: one.File, Line: one.Line, Column: one.Column, Message: one.Message, Hint: one.Hint,
		}
	}
	return faults
}
