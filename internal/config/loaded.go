package config

import (
	"fmt"
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Loaded is a configuration with what it was made of.
type Loaded struct {
	// Tree is nil if there is an error.
	Tree *spec.Tree
	// Notices are what is said in vain, in the order of the files.
	Notices []*Notice
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

	document *value // nil if something could not be read or parsed
}

// LoadAll is Load, and tells what the tree was made of. Its first result is
// never nil: who waits for the files to be mended has to know which they are.
func LoadAll(path string) (*Loaded, error) { return loadAll(path, checkFiles) }

// LoadUnchecked is LoadAll, but does not look whether the directories, commands
// and input files of the agents exist.
func LoadUnchecked(path string) (*Loaded, error) { return loadAll(path, nil) }

func loadAll(path string, further func([]spec.Decl) []spec.Problem) (*Loaded, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return &Loaded{}, fmt.Errorf("finding the directory of %s: %w", path, err)
	}
	g := newFiles(path, absolute, fleet)
	if isAidefile(path) {
		l, err := loadAlone(g, path, absolute)
		l.Sources, l.WatchDirs, l.Revision = g.sourcePaths(), g.watchDirs(), g.revision()
		return l, err
	}
	l := &Loaded{}
	if data, e := g.first(path, absolute); e != nil {
		err = Errors{e}
	} else {
		l, err = load(path, g.dir, data, g, further)
	}
	l.Sources, l.WatchDirs, l.Revision = g.sourcePaths(), g.watchDirs(), g.revision()
	return l, err
}

// load makes a tree of data, the content of a file, and of what g finds
// included. Without g nothing can be. The result is never nil.
func load(name, dir string, data []byte, g *gatherer, further func([]spec.Decl) []spec.Problem) (*Loaded, error) {
	l := &Loaded{}
	r, document, err := open(name, data, fleet, sections())
	if err != nil {
		return l, err
	}
	r.src.dir = dir
	if g == nil {
		g = &gatherer{}
		if list := document.byName["include"]; list != nil {
			r.fail(list.key, list, "", "include cannot be followed here, expected a file by itself")
		}
	} else if g.r = r; !g.include(document) {
		return l, r.errors()
	}
	document.remove("include")
	f := file{root: spec.Node{Name: projectName(dir)}, patrol: patrol{Patrol: spec.DefaultPatrol()}}
	if translate := formatOf(name).translate; translate != nil {
		f.standing.translation = translate(r, document, dir, g)
		document = f.standing.translation.document
	} else {
		r.patch(document, ownPatches())
	}
	l.document = document
	fileTable().read(r, document, &f)
	r.persistence(&f, dir)
	r.program(&f, dir, further != nil)
	f.patrol.apply(f.agents, f.supervisors, f.limit)
	if further != nil {
		r.namepools(&f, dir, g)
	}
	standing := r.orders(&f, dir, g, further != nil)
	// A city may have packs for rigs that it does not have yet.
	f.root.Bare = len(standing) > 0 || f.standing.translation != nil && len(f.agents) == 0
	f.aidefiles(r, dir, g)
	decls, places := f.declarations(dir)
	tree, problems := spec.Assemble(f.root, decls)
	if further != nil {
		problems = append(problems, further(decls)...)
	}
	for _, p := range problems {
		r.report(p, document, places)
	}
	r.sortNotices()
	l.Notices = r.notices
	if len(r.errs) > 0 {
		return l, r.errors()
	}
	tree.Recall, tree.Persistence, tree.Patrol, tree.Orders = f.recall, f.persistence, f.patrol.Patrol, standing
	tree.Retention, tree.Logs = f.retention, f.logs
	l.Tree = tree
	return l, nil
}
