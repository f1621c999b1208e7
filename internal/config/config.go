// Package config loads the file that describes a project into a spec.Tree. Each error names
// its place, what was expected and what to do. The package defines the tables of
// coppice.toml; formats lists the other files that can describe a project.
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

// Load reads the file at path and the files that it includes. In addition to what Parse
// checks, it checks that directories, commands and input files of agents can be used.
// An error about the file is Errors. If the file does not exist, it wraps fs.ErrNotExist.
func Load(path string) (*spec.Tree, error) {
	l, err := LoadAll(path)
	return l.Tree, err
}

// fleet has the hints for a coppice.toml.
var fleet = toml.Advice{Missing: "`coppice init` writes one", Large: "split the fleet into several projects",
	Page: "docs/configuration.md"}

// Parse reads data, the content of the file called name, without touching the file system.
// It cannot follow includes. Relative paths are relative to the directory of name. The error
// is Errors.
func Parse(name string, data []byte) (*spec.Tree, error) {
	l, err := load(name, filepath.Dir(name), data, nil, false)
	return l.Tree, err
}

// Find returns the path of the coppice.toml, or else the city.toml, in dir or the nearest
// directory above it. If there is none, the error wraps fs.ErrNotExist.
func Find(dir string) (string, error) {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return fileset.Nearest(dir, names...)
}

// format is a kind of file that describes a project.
type format struct {
	name string
	// translate translates its document into that of a coppice.toml; nil for a coppice.toml.
	translate func(r *toml.Reader, document *toml.Value, dir string, g *fileset.Set) *gascity.Translation
}

// formats returns the kinds of files, in order of precedence within a directory.
func formats() []format {
	return []format{{name: FileName}, {name: gascity.FileName, translate: gascity.Translate}}
}

// formatOf returns the format of a file. A file of any other name is read as a coppice.toml.
func formatOf(path string) format {
	for _, f := range formats() {
		if f.name == filepath.Base(path) {
			return f
		}
	}
	return format{name: FileName}
}

// FindAidefile returns the path of the Aidefile in dir or the nearest directory above it. If
// there is none, the error wraps fs.ErrNotExist.
func FindAidefile(dir string) (string, error) { return fileset.Nearest(dir, aidefile.FileName) }

// declarations returns the declarations of the file and their tables, in the order of the file.
func (f *file) declarations(r *toml.Reader, dir string) (decls []spec.Decl, places []*toml.Value) {
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
	for _, a := range f.agents {
		if a.limit != (setting.Limit{}) {
			a.Limit = a.limit.Over(supervisor.ScopeChild, supervisor.Quarantine)
		}
		a.resolve(dir)
		a.Pool = a.pool.declared()
		a.declarePipeline(r)
		all = append(all, placed{spec.Decl{Agent: &a.Agent}, a.table})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.table.Compare(b.table) })
	for _, p := range all {
		decls, places = append(decls, p.Decl), append(places, p.table)
	}
	return decls, places
}

// reportProblem adds an error for a problem of the declarations. It drops the problem if
// there is an error at its place already.
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
	// A file seems to have no agents if they could not be read.
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

// Types of package toml that callers of this package need.
type (
	// Error is a fault in a file.
	Error = toml.Error
	// Errors are all faults of a file and of the files that it includes.
	Errors = toml.Errors
	// Notice is a warning that something in a file has no effect.
	Notice = toml.Notice
	// Origin is a value of the configuration and the places that set it.
	Origin = toml.Origin
)
