package lsp

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/source"
)

// view is an immutable snapshot of the documents.
type view struct {
	edition   int
	overlay   load.Overlay
	documents map[string]document // by path
}

func (s *server) view() view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := view{edition: s.edition, overlay: load.Overlay{}, documents: map[string]document{}}
	for path, d := range s.documents {
		v.documents[path] = *d
		v.overlay[path] = d.text
		if d.fault() != nil {
			v.overlay[path] = ""
		}
	}
	return v
}

// uri returns the URI of a file as written by the client.
func (v view) uri(path string) string {
	if d, ok := v.documents[path]; ok {
		return d.uri
	}
	return uriOf(path)
}

// with returns the view with other texts of some files.
func (v view) with(texts map[string]string) view {
	v.overlay = maps.Clone(v.overlay)
	maps.Copy(v.overlay, texts)
	v.edition = -1
	return v
}

// project holds the programs below one directory.
type project struct {
	main  *load.Program // nil if there is none
	fault error         // error in the files of the project
	tests []string      // test files, each a program of its own

	analyses map[string]*analysis // by entry file
}

// maxTests bounds the test files that are analysed after each change.
const maxTests = 100

// analysis is a checked program.
type analysis struct {
	program     *load.Program
	edition     int
	info        *check.Info // nil if it could not be checked
	diagnostics []diag.Diagnostic
	err         error // the first file is unreadable or the checker panicked
}

// module returns the module of a file, nil if the program does not include it.
func (a *analysis) module(path string) *check.Module {
	if a.info == nil {
		return nil
	}
	for _, m := range a.info.Modules {
		if m.File.Name == path {
			return m
		}
	}
	return nil
}

// projectOf returns the project of a file, and its root.
func (s *server) projectOf(path string) (*project, string) {
	dir := filepath.Dir(path)
	if !filepath.IsAbs(path) {
		dir = ""
	}
	s.mu.Lock()
	p := s.projects[dir]
	s.mu.Unlock()
	if p == nil {
		p = &project{analyses: map[string]*analysis{}}
		if dir != "" {
			p.main, p.fault = load.Project(s.sources, dir)
		}
		if errors.Is(p.fault, fs.ErrNotExist) {
			p.fault = nil
		}
	}
	root := dir
	if p.main != nil {
		root = p.main.Root
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// All directories of a project share it.
	if known := s.projects[root]; known != nil && p.main != nil {
		p = known
	} else if p.main != nil {
		for file, err := range load.Walk(root) {
			if err == nil && strings.HasSuffix(file, "_test"+load.Extension) && len(p.tests) < maxTests {
				p.tests = append(p.tests, file)
			}
		}
	}
	s.projects[dir], s.projects[root] = p, p
	return p, root
}

// programs returns the programs of the project of a file: the project's program, those of test
// files, and those of open files that belong to no other program.
func (s *server) programs(v view, path string) []*analysis {
	p, root := s.projectOf(path)
	s.checking.Lock()
	defer s.checking.Unlock()
	base := p.main
	var all []*analysis
	add := func(entry string) {
		if slices.ContainsFunc(all, func(a *analysis) bool { return a.module(entry) != nil }) {
			return
		}
		program := &load.Program{Entry: entry, Root: root}
		if base != nil {
			program = base.At(entry)
		}
		a := p.analyses[entry]
		if a == nil || a.edition != v.edition {
			a = s.analyse(program, v)
			if v.edition >= 0 {
				p.analyses[entry] = a
			}
		}
		// A module of this program is not a program of its own.
		all = append(slices.DeleteFunc(all, func(other *analysis) bool {
			return a.module(other.program.Entry) != nil && (base == nil || other.program.Entry != base.Entry)
		}), a)
	}
	if base != nil {
		add(base.Entry)
	}
	for _, t := range p.tests {
		add(t)
	}
	for _, file := range slices.Sorted(maps.Keys(v.documents)) {
		if other, _ := s.projectOf(file); other == p && (filepath.IsAbs(file) || file == path) &&
			strings.HasSuffix(file, load.Extension) || file == path {
			add(file)
		}
	}
	return all
}

// analyse checks a program.
func (s *server) analyse(program *load.Program, v view) *analysis {
	a := &analysis{program: program, edition: v.edition}
	err := s.guard("the checker", func() (err error) {
		a.info, a.diagnostics, err = program.Check(v.overlay)
		return err
	})
	if err != nil {
		a.info, a.diagnostics, a.err = nil, nil, err
	}
	return a
}

// target is the place that a request is about: the program and the module of a document, and the
// offset in its text.
type target struct {
	view
	path     string
	programs []*analysis
	analysis *analysis
	module   *check.Module
	offset   int
}

func (a *target) file() *source.File { return a.module.File }

// find returns the target of a position, nil if the document is in no program that could be
// checked.
func (s *server) find(v view, uri string, p position) *target {
	path := pathOf(uri)
	programs := s.programs(v, path)
	for _, a := range programs {
		if m := a.module(path); m != nil {
			return &target{view: v, path: path, programs: programs, analysis: a, module: m, offset: offsetAt(m.File, p)}
		}
	}
	return nil
}
