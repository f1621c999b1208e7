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

// WithPersistence returns the project with the given store.
func (p Project) WithPersistence(where spec.Persistence) Project {
	p.persistence = where
	return p
}

// Database returns the path of the database; "" if the state is only in memory.
func (p Project) Database() string {
	switch {
	case p.persistence.Backend == spec.Memory:
		return ""
	case p.persistence.Path != "":
		return p.persistence.Path
	}
	return filepath.Join(p.State, "state.db")
}

// ServeStore works like OpenStore, but also on a full disk: writes wait in memory until there is
// space. Agents need a running daemon.
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

// ErrFleet is returned for the store of a machine that is a node of a fleet: only its daemon uses that.
var ErrFleet = errors.New("this machine is a node of a fleet, and no daemon runs on it; start it with: coppice up -d")

// InFleet reports whether this machine is a node of a fleet.
func (p Project) InFleet() bool {
	_, err := os.Lstat(filepath.Join(p.Node(), "node.json"))
	return err == nil
}

// OpenStore opens the store, and creates it if it does not exist.
func (p Project) OpenStore(ctx context.Context) (store.Store, error) {
	if p.InFleet() {
		return nil, ErrFleet
	}
	path := p.Database()
	if path == "" {
		return memory.New(), nil
	}
	if err := makeStoreDir(path); err != nil {
		return nil, err
	}
	db, err := sqlite.Open(ctx, path)
	if errors.Is(err, sqlite.ErrInUse) {
		// It is not another daemon of this project, which would have the lock.
		return nil, fmt.Errorf("%w; a coppice run of the program, or another project, keeps its state there: stop "+
			"it, or name another file by path in [persistence]", err)
	}
	return db, err
}

// makeStoreDir creates the directory of a database for this user alone. Lock has created the state
// directory, so it is another one.
func makeStoreDir(database string) error {
	if err := os.MkdirAll(filepath.Dir(database), 0o700); err != nil {
		return fmt.Errorf("making the directory of the state, which [persistence] names: %w", err)
	}
	return nil
}

// ReadStore opens the store for reading. It is empty if the store does not exist or was only in
// memory.
func (p Project) ReadStore(ctx context.Context) (store.Store, error) {
	if p.InFleet() {
		return nil, ErrFleet
	}
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
