// Package config loads the file that describes a project into a spec.Tree, or returns
// errors that each name their place, what was expected and what to do. It knows the tables
// of coppice.toml itself; formats lists the other files that can describe a project.
package config

//go:generate go run ./gendoc ../../docs/configuration.md ../../docs/grove.md ../../docs/coppice.schema.json ../../docs/grove.schema.json ../../docs/gascity.md ../../docs/aidefile-reference.md ../../docs/aidefile.schema.json

import (
	_ "embed" // Template
	"fmt"
	"path/filepath"
	"slices"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/gascity"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// FileName is the name of the file that Find looks for first.
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
var fleet = toml.Advice{Missing: "`coppice init` writes one", Large: "split the fleet into several projects",
	Page: "docs/configuration.md"}

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
	return fileset.Nearest(dir, names...)
}

// format is a file that describes a project.
type format struct {
	name string
	// translate makes of its document that of a coppice.toml; nil for a coppice.toml itself.
	translate func(r *toml.Reader, document *toml.Value, dir string, g *fileset.Set) *gascity.Translation
}

// formats returns the files that describe a project. Of those in one directory the first one counts.
func formats() []format {
	return []format{{name: FileName}, {name: gascity.FileName, translate: gascity.Translate}}
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
func FindAidefile(dir string) (string, error) { return fileset.Nearest(dir, aidefile.FileName) }

// declarations returns those of the file in the order of their tables, each with its table.
func (f *file) declarations(dir string) (decls []spec.Decl, places []*toml.Value) {
	type placed struct {
		spec.Decl
		table *toml.Value
	}
	var all []placed
	f.root.Limit = f.patrol.Limit
	if f.limit != (setting.Limit{}) {
		f.root.Limit = f.limit.Over(supervisor.ScopeSupervisor, supervisor.Quarantine)
	}
	for i := range f.supervisors {
		g := &f.supervisors[i]
		g.Limit = g.limit.Or(f.limit).Over(supervisor.ScopeSupervisor, supervisor.Escalate)
		g.Backoff = spec.DefaultBackoff()
		all = append(all, placed{spec.Decl{Node: &g.Node, Children: g.children}, g.table})
	}
	for i := range f.agents {
		a := &f.agents[i]
		if a.limit != (setting.Limit{}) {
			a.Limit = a.limit.Over(supervisor.ScopeChild, supervisor.Quarantine)
		}
		a.resolve(dir)
		a.Pool = a.pool.declared()
		all = append(all, placed{spec.Decl{Agent: &a.Agent}, a.table})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.table.Compare(b.table) })
	for _, p := range all {
		decls, places = append(decls, p.Decl), append(places, p.table)
	}
	return decls, places
}

// reportProblem gives a problem of the declarations its place, unless the reader has
// found something at that place already: it would only be said twice.
func reportProblem(r *toml.Reader, p spec.Problem, document *toml.Value, places []*toml.Value) {
	v := document
	switch {
	case p.Decl != spec.Root:
		v = places[p.Decl].Find(p.Path...)
	case len(p.Path) > 0 && p.Path[0] == "name":
		v = document.Find("project", "name")
	case len(p.Path) > 0:
		v = document.Find(append([]string{"supervision"}, p.Path...)...)
	}
	// A file whose agents could not be read is not empty.
	consequence := v == document && r.Count() > 0
	if p.Other > 0 {
		other := places[p.Other-1].Find("name")
		line := other.Line()
		if other.Source == v.Source {
			p.Message += fmt.Sprintf(" (that is in line %d)", line)
		} else {
			p.Message += fmt.Sprintf(" (that is in %s:%d)", other.Source.Name, line)
		}
	}
	if !r.IsFaulty(v) && !consequence {
		r.Fail(v, p.Hint, "%s", p.Message)
	}
}

// What describes errors and values is the same for all formats.
type (
	// Error is a fault in a file.
	Error = toml.Error
	// Errors are all faults of a file and of those that it includes.
	Errors = toml.Errors
	// Notice is something in a file that has no effect.
	Notice = toml.Notice
	// Origin is a value that files state, and where.
	Origin = toml.Origin
)
