package daemon

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

// LoadTree reads the desired tree of a project from its file: a coppice.toml,
// with the Sage program that it names as a part of the tree, or a grove.toml,
// whose program is the whole tree. Notices are what the file says in vain. The
// error is config.Errors, or about the program.
func LoadTree(file string) (tree *spec.Tree, notices []*config.Notice, err error) {
	l := newLoader(nil, nil)
	tree, notices, _, err = l.read(file)
	return tree, notices, errors.Join(err, l.programs.Close())
}

// loader reads the files of a project for a controller that runs their tree.
type loader struct {
	log      *slog.Logger
	programs *sagehost.Programs

	mu       sync.Mutex
	reported string // the revision whose notices have been logged
}

func newLoader(l *slog.Logger, trace io.Writer) *loader {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &loader{log: l, programs: sagehost.NewPrograms(l, trace)}
}

// load is LoadTree with what a controller has to know of the files. It may be
// called again, for the tree that is desired from then on.
func (l *loader) load(file string) reconcile.Loaded {
	tree, notices, sources, err := l.read(file)
	loaded := reconcile.Loaded{
		Tree: tree, Err: err,
		Config: fleet.Config{Path: file, LoadedAt: time.Now(), Revision: revisionOf(sources.Revisions)},
		Watch:  filewatch.Set{Files: sortedSet(sources.Files), Dirs: sortedSet(sources.Dirs)},
	}
	l.mu.Lock()
	news := loaded.Config.Revision != l.reported // the file is read again and again
	l.reported = loaded.Config.Revision
	l.mu.Unlock()
	if news {
		for _, n := range notices {
			l.log.Warn(n.String())
		}
	}
	return loaded
}

// read reads a file and what it names. The tree is nil if there is an error.
func (l *loader) read(file string) (*spec.Tree, []*config.Notice, sagehost.Sources, error) {
	if grove.Is(file) {
		return l.programs.Project(file)
	}
	all, err := config.LoadAll(file)
	sources := sagehost.Sources{Files: all.Sources, Dirs: all.WatchDirs, Revisions: []string{all.Revision}}
	if err == nil && all.Tree.Root.Program != "" {
		var more sagehost.Sources
		more, err = l.programs.Merge(all.Tree)
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
