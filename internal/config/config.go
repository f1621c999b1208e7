// Package config reads what people write: coppice.toml becomes a spec.Tree, or
// a list of errors that each name their place, what was expected and what to
// do. The tables of the file are described by data (tables.go) that reads
// them, suggests keys and writes the reference page.
package config

//go:generate go run ./gendoc ../../docs/configuration.md

import (
	_ "embed" // Template
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// FileName is what Find looks for.
const FileName = "coppice.toml"

// Template is a commented coppice.toml that runs as it is.
//
//go:embed template.toml
var Template string

// Load reads the file at path and checks, beyond what Parse does, that the
// directories, commands and input files of its agents exist and can be used.
// An error about the file is Errors; one that the file does not exist wraps
// fs.ErrNotExist.
func Load(path string) (*spec.Tree, error) {
	data, e := read(path)
	if e != nil {
		return nil, Errors{e}
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding the directory of %s: %w", path, err)
	}
	return load(path, filepath.Dir(absolute), data, checkFiles)
}

// Parse reads data, the content of the file called name, without touching the
// file system. Relative paths are taken relative to the directory of name. The
// error is Errors.
func Parse(name string, data []byte) (*spec.Tree, error) {
	return load(name, filepath.Dir(name), data, nil)
}

// Find returns the path of the coppice.toml in dir or the nearest directory
// above it. The error wraps fs.ErrNotExist if there is none.
func Find(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("looking for %s above %s: %w", FileName, dir, err)
	}
	for d := absolute; ; d = filepath.Dir(d) {
		path := filepath.Join(d, FileName)
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		// What is there but cannot be seen must not be passed over for another project.
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("looking for %s above %s: %w", FileName, dir, err)
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no %s in %s or above it: %w", FileName, absolute, fs.ErrNotExist)
		}
	}
}

// load is Parse with the directory of the project and a further check of the declarations.
func load(name, dir string, data []byte, further func([]spec.Decl) []spec.Problem) (*spec.Tree, error) {
	if len(data) > MaxFile {
		return nil, Errors{tooLarge(name, int64(len(data)))}
	}
	src := newSource(name, data)
	if err := src.checkText(); err != nil {
		return nil, Errors{err}
	}
	document, err := parse(src)
	if err != nil {
		return nil, Errors{err}
	}
	r := &reader{src: src, faulty: map[int]bool{}, known: sections()}
	f := file{root: spec.Node{Name: projectName(dir)}}
	fileTable().read(r, document, &f)
	r.persistence(&f, dir)
	decls, places := f.declarations(dir)
	tree, problems := spec.Assemble(f.root, decls)
	if further != nil {
		problems = append(problems, further(decls)...)
	}
	for _, p := range problems {
		r.report(p, document, places)
	}
	if len(r.errs) > 0 {
		return nil, r.errors()
	}
	tree.Forget, tree.Persistence = f.forget, f.persistence
	return tree, nil
}

// projectName is the default of the project's name.
func projectName(dir string) string {
	if name := filepath.Base(dir); spec.CheckName(name) == "" {
		return name
	}
	return "root"
}

// declarations are those of the file in the order of their tables, each with its table.
func (f *file) declarations(dir string) (decls []spec.Decl, places []*value) {
	type placed struct {
		spec.Decl
		table *value
	}
	var all []placed
	f.root.Limit = f.limit.over(supervisor.ScopeSupervisor, supervisor.Escalate)
	for i := range f.supervisors {
		g := &f.supervisors[i]
		g.Limit = g.limit.or(f.limit).over(supervisor.ScopeSupervisor, supervisor.Escalate)
		all = append(all, placed{spec.Decl{Node: &g.Node, Children: g.children}, g.table})
	}
	for i := range f.agents {
		a := &f.agents[i]
		if a.limit != (limit{}) {
			a.Limit = a.limit.over(supervisor.ScopeChild, supervisor.Quarantine)
		}
		a.resolve(dir)
		all = append(all, placed{spec.Decl{Agent: &a.Agent}, a.table})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.table.at - b.table.at })
	for _, p := range all {
		decls, places = append(decls, p.Decl), append(places, p.table)
	}
	return decls, places
}

// report gives a problem of the declarations its place, unless the reader has
// found something at that place already: it would only be said twice.
func (r *reader) report(p spec.Problem, document *value, places []*value) {
	v := document
	switch {
	case p.Decl != spec.Root:
		v = places[p.Decl].find(p.Path...)
	case len(p.Path) > 0 && p.Path[0] == "name":
		v = document.find("project", "name")
	case len(p.Path) > 0:
		v = document.find(append([]string{"supervision"}, p.Path...)...)
	}
	// A file whose agents could not be read is not empty.
	consequence := v == document && len(r.errs) > 0
	if !r.faulty[v.at] && !consequence {
		r.fail(v.at, v, p.Hint, "%s", p.Message)
	}
}
