package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

// Keeping returns the project with its state where its file says.
func (p Project) Keeping(where spec.Persistence) Project {
	p.persistence = where
	return p
}

// Database is the file of the state; "" if the state ends with the daemon.
func (p Project) Database() string {
	switch {
	case p.persistence.Backend == spec.Memory:
		return ""
	case p.persistence.Path != "":
		return p.persistence.Path
	}
	return filepath.Join(p.State, "state.db")
}

// ServeStore is OpenStore for a daemon: agents need it more than it needs the disk. Where
// that is full, what has to be written waits in memory until there is room.
func (p Project) ServeStore(ctx context.Context, logger *slog.Logger) (store.Store, error) {
	db, err := p.OpenStore(ctx)
	if !errors.Is(err, store.ErrFull) {
		return db, err
	}
	waiting, waitErr := sqlite.OpenWaiting(ctx, p.Database())
	if waitErr != nil {
		return nil, errors.Join(err, waitErr)
	}
	logger.Warn("the disk is full: state is kept in memory until there is room", "error", err)
	return waiting, nil
}

// OpenStore opens the state, which is made if there is none.
func (p Project) OpenStore(ctx context.Context) (store.Store, error) {
	path := p.Database()
	if path == "" {
		return memory.New(), nil
	}
	// Of the state's own directory Lock has taken care. What else is named is made, for its owner alone.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the state, which [persistence] names: %w", err)
	}
	db, err := sqlite.Open(ctx, path)
	if errors.Is(err, sqlite.ErrInUse) {
		// Another daemon of this project would have its lock, too.
		return nil, fmt.Errorf("%w; a coppice run of the program, or another project, keeps its state there: stop "+
			"it, or name another file by path in [persistence]", err)
	}
	return db, err
}

// ReadStore opens the state to read it. Where none was ever written, or it ended
// with the daemon, it is empty.
func (p Project) ReadStore(ctx context.Context) (store.Store, error) {
	path := p.Database()
	if path == "" {
		return memory.New(), nil
	}
	db, err := sqlite.OpenReadOnly(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return memory.New(), nil
	}
	return db, err
}
