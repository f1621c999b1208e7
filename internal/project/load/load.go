// Package load reads the desired tree of a project from its files.
package load

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
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
)

// Tree reads the desired tree of a project from its file: a coppice.toml,
// with the Sage program that it names as a part of the tree, or a grove.toml,
// whose program is the whole tree. Notices are what the file says in vain. The
// error is config.Errors, or about the program.
func Tree(file string) (tree *spec.Tree, notices []*config.Notice, err error) {
	f := New(nil, nil)
	tree, notices, _, err = f.read(file)
	return tree, notices, errors.Join(err, f.Programs.Close())
}

// Files reads the files of a project for a controller that runs their tree.
type Files struct {
	Logger   *slog.Logger
	Programs *sagehost.Programs // those of the trees that were read; the caller closes them

	mu       sync.Mutex
	reported string // the revision whose notices have been logged
}

// New returns what reads files. Notices are logged, unless the logger is nil. trace gets events of
// programs as NDJSON, if it is not nil.
func New(l *slog.Logger, trace io.Writer) *Files {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &Files{Logger: l, Programs: sagehost.NewPrograms(l, trace)}
}

// Load is Tree with what a controller has to know of the files. It may be
// called again, for the tree that is desired from then on.
func (f *Files) Load(file string) reconcile.Loaded {
	tree, notices, sources, err := f.read(file)
	loaded := reconcile.Loaded{
		Tree: tree, Err: err,
		Config: fleet.Config{Path: file, LoadedAt: time.Now(), Revision: revisionOf(sources.Revisions)},
		Watch:  filewatch.Set{Files: sortedSet(sources.Files), Dirs: sortedSet(sources.Dirs)},
	}
	f.mu.Lock()
	news := loaded.Config.Revision != f.reported // the file is read again and again
	f.reported = loaded.Config.Revision
	f.mu.Unlock()
	if news {
		for _, n := range notices {
			f.Logger.Warn(n.String())
		}
	}
	return loaded
}

// read reads a file and what it names. The tree is nil if there is an error.
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

// revisionOf combines the revisions of the files that a tree is made of.
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
