package config

import (
	"fmt"
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/notify"
	"github.com/coppice-dev/coppice/internal/config/ondisk"
	"github.com/coppice-dev/coppice/internal/config/orders"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/lookpath"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Loaded is a configuration and its files.
type Loaded struct {
	// Tree is nil if there is an error.
	Tree *spec.Tree
	// Notices are warnings, in the order of the files.
	Notices []*toml.Notice
	// Sources are the absolute paths of all files that belong to the configuration, including
	// files that are named but do not exist. The first is the file itself.
	Sources []string
	// WatchDirs are the absolute paths of the directories in which a change could change the
	// configuration, sorted: those of all sources and of the targets of links, and those that
	// patterns search. For a missing directory it is the nearest existing one above it.
	WatchDirs []string
	// Revision is the SHA-256, in hex, of the paths and contents of all files that could be
	// read. It does not cover commands and directories.
	Revision string

	document *toml.Value // nil if something could not be read or parsed
}

// LoadAll works like Load and also returns the files. Its first result is never nil: callers
// watch the files of a configuration that has errors.
func LoadAll(path string) (*Loaded, error) { return loadAll(path, true) }

// LoadUnchecked works like LoadAll, but does not check whether directories, commands and
// input files of agents exist.
func LoadUnchecked(path string) (*Loaded, error) { return loadAll(path, false) }

func loadAll(path string, onDisk bool) (*Loaded, error) {
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
		l, err = load(path, g.Dir, data, g, onDisk)
	}
	l.Sources, l.WatchDirs, l.Revision = g.SourcePaths(), g.WatchDirs(), g.Revision()
	return l, err
}

// load builds a tree from data, the content of a file, and from the files that g includes.
// Without g, the file can include none. onDisk also checks that the files of agents and orders
// exist. The result is never nil.
func load(name, dir string, data []byte, g *fileset.Set, onDisk bool) (*Loaded, error) {
	l := &Loaded{}
	r, document, err := toml.Open(name, data, fleet, sections())
	if err != nil {
		return l, err
	}
	r.Source.Dir = dir
	if g == nil {
		g = &fileset.Set{}
		if list := document.Field("include"); list != nil {
			r.FailKey(list, "", "include cannot be followed here, expected a file without it")
		}
	} else if g.Reader = r; !g.Include(document) {
		return l, r.Errors()
	}
	document.Remove("include")
	f := file{root: spec.Node{Name: setting.ProjectName(dir)}, patrol: patrol{Patrol: spec.DefaultPatrol()},
		metrics: spec.Metrics{MaxAgents: spec.DefaultMetricsAgents}, orders: orders.Settings{TooMany: fleet.Large}}
	if translate := formatOf(name).translate; translate != nil {
		f.orders.Translation = translate(r, document, dir, g)
		document = f.orders.Translation.Document
	} else {
		r.Patch(document, ownPatches())
	}
	l.document = document
	fileTable().Read(r, document, &f)
	finishPersistence(r, &f, dir)
	resolveProgram(r, &f, dir, onDisk)
	f.patrol.apply(f.agents, f.supervisors, f.limit)
	if onDisk {
		readNamepools(r, &f, dir, g)
	}
	allOrders := f.orders.Read(r, f.root.Name, dir, g, onDisk)
	// A city may have packs for rigs that do not exist yet.
	f.root.AllowEmpty = len(allOrders) > 0 || f.orders.Translation != nil && len(f.agents) == 0
	f.aidefiles(r, dir, g)
	decls, places := f.declarations(r, dir)
	tree, problems := spec.Assemble(f.root, decls)
	if onDisk {
		problems = append(problems, ondisk.Check(decls)...)
	}
	for _, p := range problems {
		reportProblem(r, p, document, places)
	}
	quotas := f.finishQuotas(r, tree, dir, onDisk)
	budgets := f.finishBudgets(r, tree, quotas)
	services := f.finishServices(r, dir, onDisk)
	var find func(string) error
	if onDisk {
		find = func(command string) error {
			_, err := lookpath.Find(command, dir, ondisk.SearchPath(nil, ""))
			return err
		}
	}
	notifications, deadman := notify.Finish(r, f.notify, dir, find), f.deadman.Finish(r, dir)
	l.Notices = r.SortedNotices()
	if r.Count() > 0 {
		return l, r.Errors()
	}
	tree.RestorePolicy, tree.Persistence, tree.Patrol, tree.Orders = f.recall, f.persistence, f.patrol.Patrol, allOrders
	tree.Retention, tree.Logs, tree.Quotas, tree.Budgets = f.retention, f.logs, quotas, budgets
	tree.OTLP, tree.Services, tree.Notify, tree.Deadman = f.otlp, services, notifications, deadman
	tree.Traces = f.traces.Finish(dir)
	if f.metrics.Listen != "" {
		tree.Metrics = f.metrics
	}
	if f.web.Listen != "" {
		tree.Web = f.web
	}
	l.Tree = tree
	return l, nil
}
