package config

import (
	"fmt"
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Loaded is a configuration together with its files.
type Loaded struct {
	// Tree is nil if there is an error.
	Tree *spec.Tree
	// Notices are warnings, in the order of the files.
	Notices []*toml.Notice
	// Sources are the absolute paths of all files that were read, or were to
	// be: the first one is the file itself. Those that are named but do not
	// exist are among them.
	Sources []string
	// WatchDirs are the absolute paths of the directories in which a change
	// could change the configuration: those of all sources and of what they
	// link to, those that patterns look into, and for one that does not exist
	// the nearest above it that does. They are sorted.
	WatchDirs []string
	// Revision is the SHA-256, in hex, of paths and contents of all files that
	// could be read. What else the file depends on (commands, directories) is
	// not in it.
	Revision string

	document *toml.Value // nil if something could not be read or parsed
}

// LoadAll works as Load, and returns the files as well. Its first result is never nil, so
// that a caller can watch the files of a configuration that has errors.
func LoadAll(path string) (*Loaded, error) { return loadAll(path, checkFiles) }

// LoadUnchecked works as LoadAll, but does not check whether the directories, commands
// and input files of the agents exist.
func LoadUnchecked(path string) (*Loaded, error) { return loadAll(path, nil) }

func loadAll(path string, further func([]spec.Decl) []spec.Problem) (*Loaded, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return &Loaded{}, fmt.Errorf("finding the directory of %s: %w", path, err)
	}
	g := fileset.New(path, absolute, fleet)
	if isAidefile(path) {
		l, err := loadAidefile(g, path, absolute)
		l.Sources, l.WatchDirs, l.Revision = g.SourcePaths(), g.WatchDirs(), g.Revision()
		return l, err
	}
	l := &Loaded{}
	if data, e := g.First(path, absolute); e != nil {
		err = toml.Errors{e}
	} else {
		l, err = load(path, g.Dir, data, g, further)
	}
	l.Sources, l.WatchDirs, l.Revision = g.SourcePaths(), g.WatchDirs(), g.Revision()
	return l, err
}

// load makes a tree of data, the content of a file, and of what g finds
// included. Without g nothing can be. The result is never nil.
func load(name, dir string, data []byte, g *fileset.Set, further func([]spec.Decl) []spec.Problem) (*Loaded, error) {
	l := &Loaded{}
	r, document, err := toml.Open(name, data, fleet, sections())
	if err != nil {
		return l, err
	}
	r.Source.Dir = dir
	if g == nil {
		g = &fileset.Set{}
		if list := document.Field("include"); list != nil {
			r.FailKey(list, "", "include cannot be followed here, expected a file by itself")
		}
	} else if g.Reader = r; !g.Include(document) {
		return l, r.Errors()
	}
	document.Remove("include")
	f := file{root: spec.Node{Name: setting.ProjectName(dir)}, patrol: patrol{Patrol: spec.DefaultPatrol()}}
	if translate := formatOf(name).translate; translate != nil {
		f.orders.translation = translate(r, document, dir, g)
		document = f.orders.translation.Document
	} else {
		r.Patch(document, ownPatches())
	}
	l.document = document
	fileTable().Read(r, document, &f)
	finishPersistence(r, &f, dir)
	resolveProgram(r, &f, dir, further != nil)
	f.patrol.apply(f.agents, f.supervisors, f.limit)
	if further != nil {
		readNamepools(r, &f, dir, g)
	}
	orders := readOrders(r, &f, dir, g, further != nil)
	// A city may have packs for rigs that it does not have yet.
	f.root.Bare = len(orders) > 0 || f.orders.translation != nil && len(f.agents) == 0
	f.aidefiles(r, dir, g)
	decls, places := f.declarations(dir)
	tree, problems := spec.Assemble(f.root, decls)
	if further != nil {
		problems = append(problems, further(decls)...)
	}
	for _, p := range problems {
		reportProblem(r, p, document, places)
	}
	l.Notices = r.SortedNotices()
	if r.Count() > 0 {
		return l, r.Errors()
	}
	tree.Recall, tree.Persistence, tree.Patrol, tree.Orders = f.recall, f.persistence, f.patrol.Patrol, orders
	tree.Retention, tree.Logs = f.retention, f.logs
	l.Tree = tree
	return l, nil
}
