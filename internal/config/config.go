// Package config reads what people write: coppice.toml becomes a spec.Tree and
// grove.toml a Grove, or a list of errors that each name their place, what was
// expected and what to do. The tables of both files are described by data
// (tables.go, grove.go) that reads them, suggests keys and writes their
// reference pages.
package config

//go:generate go run ./gendoc ../../docs/configuration.md ../../docs/grove.md ../../docs/coppice.schema.json ../../docs/grove.schema.json ../../docs/gascity.md ../../docs/aidefile-reference.md ../../docs/aidefile.schema.json

import (
	_ "embed" // Template
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// FileName is what Find looks for.
const FileName = "coppice.toml"

// Template is a commented coppice.toml that runs as it is.
//
//go:embed template.toml
var Template string

// Load reads the file at path with those that it includes and checks, beyond
// what Parse does, that the directories, commands and input files of its agents
// exist and can be used.
// An error about the file is Errors; one that the file does not exist wraps
// fs.ErrNotExist.
func Load(path string) (*spec.Tree, error) {
	l, err := LoadAll(path)
	return l.Tree, err
}

// fleet is the advice for a coppice.toml.
var fleet = advice{missing: "`coppice init` writes one", large: "split the fleet into several projects",
	page: "docs/configuration.md"}

// Parse reads data, the content of the file called name, without touching the
// file system; it can include nothing. Relative paths are taken relative to the directory of name. The
// error is Errors.
func Parse(name string, data []byte) (*spec.Tree, error) {
	l, err := load(name, filepath.Dir(name), data, nil, nil)
	return l.Tree, err
}

// Find returns the path of the coppice.toml in dir or the nearest directory
// above it, or of a city.toml where there is no coppice.toml in the same one. The error wraps fs.ErrNotExist
// if there is none.
func Find(dir string) (string, error) {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return nearest(dir, names...)
}

// format is a file that describes a project.
type format struct {
	name string
	// translate makes of its document that of a coppice.toml; nil for a coppice.toml itself.
	translate func(r *reader, document *value, dir string, g *gatherer) *translation
}

// formats are the files that describe a project. Of those in one directory the first one counts.
func formats() []format {
	return []format{{name: FileName}, {name: CityName, translate: translateCity}}
}

// formatOf returns the format of a file. One of any other name is a coppice.toml.
func formatOf(path string) format {
	for _, f := range formats() {
		if f.name == filepath.Base(path) {
			return f
		}
	}
	return format{name: FileName}
}

// FindAidefile returns the path of the Aidefile in dir or the nearest directory
// above it: a project by itself, where there is no coppice.toml. The error wraps
// fs.ErrNotExist if there is none.
func FindAidefile(dir string) (string, error) { return nearest(dir, aidefile.FileName) }

// nearest returns the path of the file of the first of names that exists in
// dir or, if there is none, in the nearest directory above it.
func nearest(dir string, names ...string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("looking for %s above %s: %w", names[0], dir, err)
	}
	for d := absolute; ; d = filepath.Dir(d) {
		for _, name := range names {
			path := filepath.Join(d, name)
			_, err := os.Stat(path)
			if err == nil {
				return path, nil
			}
			// What is there but cannot be seen must not be passed over for another project.
			if !errors.Is(err, fs.ErrNotExist) {
				return "", fmt.Errorf("looking for %s above %s: %w", name, dir, err)
			}
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no %s in %s or above it: %w", names[0], absolute, fs.ErrNotExist)
		}
	}
}

// open parses data, for a reader that knows the sections of the file.
func open(name string, data []byte, a advice, known []section) (*reader, *value, error) {
	if len(data) > MaxFile {
		return nil, nil, Errors{tooLarge(name, int64(len(data)), a)}
	}
	src := newSource(name, data)
	document, err := parse(src)
	if err != nil {
		return nil, nil, Errors{err}
	}
	return &reader{src: src, faulty: map[spot]bool{}, known: known, page: a.page}, document, nil
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
	f.root.Limit = f.patrol.Limit
	if f.limit != (limit{}) {
		f.root.Limit = f.limit.over(supervisor.ScopeSupervisor, supervisor.Quarantine)
	}
	for i := range f.supervisors {
		g := &f.supervisors[i]
		g.Limit = g.limit.or(f.limit).over(supervisor.ScopeSupervisor, supervisor.Escalate)
		g.Backoff = spec.DefaultBackoff()
		all = append(all, placed{spec.Decl{Node: &g.Node, Children: g.children}, g.table})
	}
	for i := range f.agents {
		a := &f.agents[i]
		if a.limit != (limit{}) {
			a.Limit = a.limit.over(supervisor.ScopeChild, supervisor.Quarantine)
		}
		a.resolve(dir)
		a.Pool = a.pool.declared()
		all = append(all, placed{spec.Decl{Agent: &a.Agent}, a.table})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.table.compare(b.table) })
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
	if p.Other > 0 {
		other := places[p.Other-1].find("name")
		line, _ := other.src.position(other.at)
		if other.src == v.src {
			p.Message += fmt.Sprintf(" (that is in line %d)", line)
		} else {
			p.Message += fmt.Sprintf(" (that is in %s:%d)", other.src.name, line)
		}
	}
	if !r.isFaulty(v) && !consequence {
		r.fail(v.at, v, p.Hint, "%s", p.Message)
	}
}
