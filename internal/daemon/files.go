package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/coppice-dev/coppice/internal/filewatch"
	"github.com/coppice-dev/coppice/internal/project/load"
)

// projectFiles knows the revision of the files of the project on this machine, which should be the same on all nodes of
// a fleet.
type projectFiles struct {
	config   string // path of the first file
	logger   *slog.Logger
	revision atomic.Pointer[string]
}

// newProjectFiles returns the files with the revision that was read.
func newProjectFiles(config, revision string, logger *slog.Logger) *projectFiles {
	f := &projectFiles{config: config, logger: logger}
	f.revision.Store(&revision)
	return f
}

// Revision returns that of the files as they were read last without an error.
func (f *projectFiles) Revision() string { return *f.revision.Load() }

// run calls changed each time that the revision is another one, until ctx ends.
func (f *projectFiles) run(ctx context.Context, first filewatch.Set, changed func()) {
	w := filewatch.New(first, f.logger)
	defer w.Close()
	for set := first; ; {
		files := load.New(nil, nil) // its own: a controller reads them at the same time
		now := files.Load(f.config)
		if err := files.Programs.Close(); err != nil {
			f.logger.Warn("cannot close the programs of the project", "error", err)
		}
		// Files with an error do not count: the controller goes on with those before.
		if revision := now.Config.Revision; now.Err == nil && revision != f.Revision() {
			f.revision.Store(&revision)
			changed()
		}
		if !now.Watch.Equal(set) {
			set = now.Watch
			w.Watch(set)
			continue
		}
		select {
		case <-w.Changed():
		case <-ctx.Done():
			return
		}
	}
}
