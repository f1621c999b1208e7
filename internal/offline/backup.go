package offline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

var errInMemory = errors.New("the state of this project is in memory, as [persistence] says, and ends with the daemon")

var errInFleet = errors.New("the state of a fleet is in etcd: keep snapshots of that, with etcdctl snapshot save, or " +
	"copy it into a file, with coppice store copy URL sqlite:FILE")

// Backup copies the store of a project to a file, with or without a daemon, and returns
// the revision of the copy.
func Backup(ctx context.Context, file, to string) (store.Rev, error) {
	p, _, err := openConfigured(file)
	if err != nil {
		return 0, err
	}
	if _, err := os.Lstat(p.State); err == nil {
		if err := p.Check(); err != nil {
			return 0, err
		}
	}
	return sqlite.Backup(ctx, p.Database(), to)
}

// openConfigured opens the project of a file with its settings. It fails if the store is in memory.
func openConfigured(file string) (p project.Project, tree *spec.Tree, err error) {
	if tree, _, err = load.Tree(file); err != nil {
		return p, nil, err
	}
	if p, err = project.Open(file); err != nil {
		return p, nil, err
	}
	if p.InFleet() {
		return p, nil, errInFleet
	}
	p = p.WithPersistence(tree.Persistence)
	if p.Database() == "" {
		return p, nil, errInMemory
	}
	return p, tree, nil
}

// Restore replaces the store of a project by a backup. Nothing of the project may run. The error is a
// *project.LockedError if a daemon runs. The next daemon finds an orderly shutdown.
func Restore(ctx context.Context, file, from string, logger *slog.Logger) (r sqlite.Restored, err error) {
	p, tree, err := openConfigured(file)
	if err != nil {
		return r, err
	}
	lock, err := p.LockOffline()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := requireIdle(ctx, p, tree, "backup", logger); err != nil {
		return r, err
	}
	if r, err = sqlite.Restore(ctx, p.Database(), from); err != nil {
		return r, err
	}
	e := event.Event{
		Type: event.StoreRestored, Actor: "user",
		Message: fmt.Sprintf("%d records were restored from the backup %s, of revision %d", r.Records, from, r.Rev),
	}
	if err := writeEvents(ctx, p, logger, []event.Event{e}, true); err != nil {
		return r, fmt.Errorf("the backup is restored, but logging that failed: %w", err)
	}
	p.WriteExitRecord(nil)
	return r, nil
}

// requireIdle returns an error if agents or orders of the project run without a daemon. They would
// not match what is written.
func requireIdle(ctx context.Context, p project.Project, tree *spec.Tree, what string, logger *slog.Logger) error {
	seen, err := p.Observe(ctx, tree, logger)
	if err != nil {
		return err
	}
	var running []string
	for _, o := range seen {
		running = append(running, o.Path)
	}
	jobs, err := job.Open(job.Options{Dir: p.Jobs(), Logger: logger})
	if err != nil {
		return err
	}
	all, err := jobs.List(ctx)
	if err := errors.Join(err, jobs.Close()); err != nil {
		return err
	}
	for id, lives := range all {
		if lives {
			running = append(running, id)
		}
	}
	if len(running) > 0 {
		return fmt.Errorf("%s still run without a daemon, and would not match the %s; stop them with: coppice down",
			strings.Join(running, ", "), what)
	}
	return nil
}
