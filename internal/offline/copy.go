package offline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/transfer"
)

// ErrSameStore is returned for a copy of a store to itself.
var ErrSameStore = errors.New("both are the same store")

// CopyOptions configure CopyStore.
type CopyOptions struct {
	File     string // of the project
	From, To string // see project.Locate
	Progress func(transfer.Progress)
	Logger   *slog.Logger
}

// Copied describes a copy.
type Copied struct {
	From, To project.Location
	transfer.Report
}

// CopyStore copies a store into an empty one, and verifies the copy. Nothing of the project may run.
// The error is a *project.LockedError if a daemon runs, and a *project.LocationError if From or To
// names no store. A file that was made for a copy that fails is removed.
func CopyStore(ctx context.Context, o CopyOptions) (c Copied, err error) {
	tree, _, err := load.Tree(o.File)
	if err != nil {
		return c, err
	}
	p, err := project.Open(o.File)
	if err != nil {
		return c, err
	}
	p = p.WithPersistence(tree.Persistence)
	if c.From, err = p.Locate(o.From); err != nil {
		return c, err
	}
	if c.To, err = p.Locate(o.To); err != nil {
		return c, err
	}
	if c.From.Same(c.To) {
		return c, fmt.Errorf("%w: %v", ErrSameStore, c.From)
	}
	lock, err := p.LockOffline()
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := requireIdle(ctx, p, tree, "copy", o.Logger); err != nil {
		return c, err
	}
	from, err := c.From.Open(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, discard, err := c.To.Create(ctx)
	if err != nil {
		return c, err
	}
	c.Report, err = transfer.Copy(ctx, from, to, o.Progress)
	if err = errors.Join(err, to.Close()); err == nil {
		return c, nil
	}
	err = fmt.Errorf("copying %v to %v: %w", c.From, c.To, err)
	if errors.Is(err, store.ErrNotEmpty) { // somebody else has made it
		return c, err
	}
	return c, errors.Join(err, discard())
}
