// Package load reads the desired tree of a project from its files.
package load

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/config/grove"
	"github.com/coppice-dev/coppice/internal/filewatch"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/sagehost"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/sage/load"
)

// Tree reads the desired tree of a project from its file. A coppice.toml may name a Sage program,
// which becomes a part of the tree. The program of a grove.toml is the whole tree. notices are
// warnings about the file. The error is config.Errors, or an error of the program.
func Tree(file string) (tree *spec.Tree, notices []*config.Notice, err error) {
	f := New(nil, nil)
	tree, notices, _, err = f.read(file)
	return tree, notices, errors.Join(err, f.Programs.Close())
}

// Sandbox changes a project that is only tried.
type Sandbox interface {
	State() string // a directory in place of that of the project
	Tree(*spec.Tree) error
	Program(*load.Program) error
}

// Files reads the files of a project for a daemon.
type Files struct {
	Logger   *slog.Logger
	Programs *sagehost.Programs // programs of the trees that were read; the caller closes them

	sandbox Sandbox // nil for the project as it is

	mu       sync.Mutex
	reported string // revision whose notices were logged
}

// New returns a Files. Notices are logged unless the logger is nil. Events of programs are written to
// trace as NDJSON unless it is nil.
func New(l *slog.Logger, trace *os.File) *Files {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &Files{Logger: l, Programs: sagehost.NewPrograms(l, trace)}
}

// In makes the sandbox change what is read, unless it is nil.
func (f *Files) In(s Sandbox) *Files {
	if f.sandbox = s; s != nil {
		f.Programs.Prepare = s.Program
	}
	return f
}

// Load works like Tree and also returns the files to watch and their revision. It can be called
// repeatedly.
func (f *Files) Load(file string) reconcile.Loaded {
	tree, notices, sources, err := f.read(file)
	if err == nil && f.sandbox != nil {
		if err = f.sandbox.Tree(tree); err != nil {
			tree = nil
		}
	}
	loaded := reconcile.Loaded{
		Tree: tree, Err: err,
		Config: fleet.Config{Path: file, LoadedAt: time.Now(), Revision: revisionOf(sources.Revisions)},
		Watch:  filewatch.Set{Files: sortedSet(sources.Files), Dirs: sortedSet(sources.Dirs)},
	}
	f.mu.Lock()
	news := loaded.Config.Revision != f.reported // the files are read repeatedly
	f.reported = loaded.Config.Revision
	f.mu.Unlock()
	if news {
		for _, n := range notices {
			f.Logger.Warn(n.String())
		}
	}
	return loaded
}

// read reads a file and the files that it names. The tree is nil if there is an error.
func (f *Files) read(file string) (*spec.Tree, []*config.Notice, sagehost.Sources, error) {
	if grove.Is(file) {
		return f.Programs.Project(file)
	}
	all, err := config.LoadAll(file)
	sources := sagehost.Sources{Files: all.Sources, Dirs: all.WatchDirs, Revisions: []string{all.Revision}}
	if err == nil && all.Tree.Root.Program != "" {
		var more sagehost.Sources
		more, err = f.Programs.Merge(all.Tree)
		sources = sources.With(more)
	}
	if err != nil {
		return nil, all.Notices, sources, err
	}
	return all.Tree, all.Notices, sources, nil
}

// revisionOf combines the revisions of the files of a tree.
func revisionOf(revisions []string) string {
	if len(revisions) == 1 {
		return revisions[0]
	}
	sum := sha256.Sum256([]byte(strings.Join(revisions, "\n")))
	return hex.EncodeToString(sum[:])
}

func sortedSet(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}
