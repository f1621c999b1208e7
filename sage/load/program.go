package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
)

// Program identifies a program.
type Program struct {
	Entry string // absolute path of its first file
	Root  string // absolute path of the directory of all its files, "" for a program of one file

	// Settings are the settings of the project in Root, nil if there is no project.
	Settings *Settings
	// Fleet has the agents that can be children in addition to the program's own.
	Fleet Fleet
	// Base is the directory to which file names in diagnostics are relative if they are below it.
	// "" means absolute names.
	Base string
}

// Overlay maps the absolute paths of files that are being edited to their texts, which replace
// those on disk.
type Overlay map[string]string

// NoProjectError means that neither a directory nor those above it have a grove.toml.
type NoProjectError struct{ err error }

// Error returns the cause and a remedy.
func (e *NoProjectError) Error() string {
	return e.err.Error() + "; name a file, or write a project with: coppice sage new NAME"
}

// Unwrap returns an error that wraps fs.ErrNotExist.
func (e *NoProjectError) Unwrap() error { return e.err }

// Find finds the program that path refers to: the program of the project in a directory or above
// it, or the program that starts with a file. "" is the working directory. The error wraps
// fs.ErrNotExist if there is none. It is that of projects if a file of the project has errors.
func Find(projects Projects, path string) (*Program, error) {
	base, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the working directory: %w", err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", path, err)
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, reason(err))
	}
	dir := absolute
	if !info.IsDir() {
		dir = filepath.Dir(absolute)
	}
	p, err := Project(projects, dir)
	switch {
	case err == nil && info.IsDir():
	case err == nil:
		p.Entry = absolute
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case info.IsDir():
		return nil, &NoProjectError{err}
	default:
		p = &Program{Entry: absolute, Root: dir}
		// Without a project, the root is the directory of the file itself, not of a link to it.
		if real, err := filepath.EvalSymlinks(absolute); err == nil {
			p.Entry, p.Root = real, filepath.Dir(real)
		}
		if p.Fleet, err = projects.Fleet(p.Entry); err != nil {
			return nil, err
		}
	}
	p.Base = base
	return p, nil
}

// Project finds the program of the project in dir or above it. Its errors are those of Find.
func Project(projects Projects, dir string) (*Program, error) {
	settings, err := projects.Settings(dir)
	if err != nil {
		return nil, err
	}
	p := &Program{Entry: settings.Entry, Root: filepath.Dir(settings.File), Settings: settings}
	if p.Fleet, err = projects.Fleet(p.Root); err != nil {
		return nil, err
	}
	return p, nil
}

// At returns the program with another first file.
func (p *Program) At(entry string) *Program {
	other := *p
	other.Entry = entry
	return &other
}

// Name returns the name of a file for diagnostics.
func (p *Program) Name(path string) string {
	if p.Base == "" {
		return path
	}
	if rel, err := filepath.Rel(p.Base, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// Check reads and checks all files of the program. The error is about its first file. Errors of
// other files are diagnostics.
func (p *Program) Check(overlay Overlay) (*check.Info, []diag.Diagnostic, error) {
	if p.Root == "" {
		text, ok := overlay[p.Entry]
		if !ok {
			return nil, nil, fmt.Errorf("%s: %w", p.Name(p.Entry), fs.ErrNotExist)
		}
		info, diagnostics := check.Program(source.NewFile(p.Name(p.Entry), text),
			check.Config{Processes: p.Fleet.Agents})
		return info, diagnostics, nil
	}
	root, err := os.OpenRoot(p.Root)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.Name(p.Root), reason(err))
	}
	defer root.Close()
	return p.check(overlay, root)
}

// CheckTexts is Check without any file: texts has all files of the program by their absolute paths.
func (p *Program) CheckTexts(texts Overlay) (*check.Info, []diag.Diagnostic, error) {
	return p.check(texts, nil)
}

// check reads files from the overlay or from root, unless that is nil.
func (p *Program) check(overlay Overlay, root *os.Root) (*check.Info, []diag.Diagnostic, error) {
	l := loader{program: p, root: root, overlay: overlay, paths: map[*source.File]string{}}
	file, err := l.read(p.Entry)
	if err != nil && p.Settings != nil && p.Entry == p.Settings.Entry {
		return nil, nil, fmt.Errorf("%s, the entry of the project in %s: %w", p.Name(p.Entry),
			p.Name(p.Settings.File), err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.Name(p.Entry), err)
	}
	info, diagnostics := check.Program(file, check.Config{Load: l.load, Processes: p.Fleet.Agents})
	return info, diagnostics, nil
}

// CheckProject is like Check, except if the first file is a module of the project's program. Then it
// checks that program and returns it.
func (p *Program) CheckProject() (*Program, *check.Info, []diag.Diagnostic, error) {
	// Nearly everything allocated here survives, so the usual rate of garbage collection would take
	// a fifth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	if p.Settings != nil && p.Entry != p.Settings.Entry {
		whole := p.At(p.Settings.Entry)
		if info, diagnostics, err := whole.Check(nil); err == nil && whole.Reads(info, p.Entry) {
			return whole, info, diagnostics, nil
		}
	}
	info, diagnostics, err := p.Check(nil)
	return p, info, diagnostics, err
}

type loader struct {
	program *Program
	root    *os.Root // nil: there are no files
	overlay Overlay
	paths   map[*source.File]string
}

// load reads the file of a module that parent declares: name.sg next to it, or name/mod.sg.
func (l *loader) load(parent *check.Module, name string) (*source.File, error) {
	dir := filepath.Dir(l.paths[parent.File])
	places := []string{filepath.Join(dir, name+Extension), filepath.Join(dir, name, "mod"+Extension)}
	var found *source.File
	var failed error
	for _, place := range places {
		file, err := l.read(place)
		switch {
		case err == nil && found != nil:
			return nil, fmt.Errorf("there is both %s and %s; remove one of them", l.program.Name(places[0]),
				l.program.Name(places[1]))
		case err == nil:
			found = file
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && failed == nil:
			failed = fmt.Errorf("%s: %w", l.program.Name(place), err)
		}
	}
	switch {
	case found != nil:
		return found, nil
	case failed == nil:
		failed = fmt.Errorf("there is neither %s nor %s", l.program.Name(places[0]), l.program.Name(places[1]))
	}
	return nil, failed
}

// errOutside is the error for a file outside of the project.
var errOutside = errors.New("is outside of the project")

func (l *loader) read(path string) (*source.File, error) {
	rel, err := filepath.Rel(l.program.Root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, errOutside
	}
	text, ok := l.overlay[path]
	if !ok {
		if l.root == nil {
			return nil, fs.ErrNotExist
		}
		f, err := l.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			err = reason(err)
			if strings.Contains(err.Error(), "escapes") { // os has no error value for it
				err = errOutside
			}
			return nil, err
		}
		defer f.Close()
		if text, _, err = readFile(f); err != nil {
			return nil, err
		}
	}
	file := source.NewFile(l.program.Name(path), text)
	l.paths[file] = path
	return file, nil
}

// Files returns the absolute paths of the files of a checked program.
func (p *Program) Files(info *check.Info) []string {
	var files []string
	for _, m := range info.Modules {
		path := m.File.Name
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.Base, path)
		}
		files = append(files, path)
	}
	return files
}

// Reads reports whether a checked program includes a file.
func (p *Program) Reads(info *check.Info, path string) bool {
	name := p.Name(path)
	return slices.ContainsFunc(info.Modules, func(m *check.Module) bool { return m.File.Name == name })
}
