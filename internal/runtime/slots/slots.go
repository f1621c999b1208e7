// Package slots has what runtimes share that keep their agents in slots on the disk: the
// directory of the slots, the table of those in use, and the methods of runtime.Runtime
// that only pass on to a slot.
package slots

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// ErrClosed is returned for calls of a runtime that is closed.
var ErrClosed = errors.New("runtime is closed")

// Slot is the slot of one agent. Errors are those of the methods of runtime.Runtime.
type Slot interface {
	// Start starts an incarnation and returns when its process exists.
	Start(ctx context.Context, l runtime.Launch) (Session, error)
	// Adopt takes over the last incarnation.
	Adopt(ctx context.Context) (runtime.Session, error)
	// Remove deletes the slot. A slot that does not exist is no error.
	Remove(ctx context.Context) error
}

// Session is a session that was just started.
type Session interface {
	runtime.Session
	// StartReady waits until the incarnation is ready. If ctx is done before, it stops
	// the incarnation and waits for its end.
	StartReady(ctx context.Context) error
}

// Table holds the slots that are in use. It is safe for concurrent use.
type Table[S Slot] struct {
	Dir string          // absolute and without symbolic links
	Ctx context.Context // done when the table is closed
	*Kept

	cancel  context.CancelCauseFunc
	newSlot func(path, dir string) S
	running sync.WaitGroup // functions of Background

	mu    sync.Mutex
	slots map[string]S // by path
}

// Open returns a Table of the slots in a directory of this user alone, which it creates
// if necessary. newSlot is called, one call at a time, with the path of an agent and the
// directory of its slot.
func Open[S Slot](dir string, newSlot func(path, dir string) S) (*Table[S], error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = private.Dir(dir)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the directory of the slots: %w", err)
	}
	t := &Table[S]{Dir: dir, Kept: NewKept(dir), newSlot: newSlot, slots: make(map[string]S)}
	t.Ctx, t.cancel = context.WithCancelCause(context.Background())
	return t, nil
}

// Close ends Ctx and waits for the functions of Background.
func (t *Table[S]) Close() error {
	t.mu.Lock()
	t.cancel(ErrClosed)
	t.mu.Unlock()
	t.running.Wait()
	return nil
}

// Background runs f in a goroutine that Close waits for, and reports true. If the table
// is closed, it does nothing and reports false.
func (t *Table[S]) Background(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Ctx.Err() != nil {
		return false
	}
	t.running.Go(f)
	return true
}

// Get returns the slot of an agent.
func (t *Table[S]) Get(path string) (slot S, err error) {
	name, err := wire.DirName(path)
	if err != nil {
		return slot, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Ctx.Err() != nil {
		return slot, ErrClosed
	}
	slot, ok := t.slots[path]
	if !ok {
		slot = t.newSlot(path, filepath.Join(t.Dir, name))
		t.slots[path] = slot
	}
	return slot, nil
}

// All returns the slots in use.
func (t *Table[S]) All() []S {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.slots))
}

// Start is part of runtime.Runtime.
func (t *Table[S]) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	slot, err := t.Get(l.Path)
	if err != nil {
		return nil, err
	}
	session, err := slot.Start(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("start %s, incarnation %d: %w", l.Path, l.Incarnation, err)
	}
	if err := session.StartReady(ctx); err != nil {
		return nil, err // shown next to the agent's path
	}
	return session, nil
}

// Adopt is part of runtime.Runtime.
func (t *Table[S]) Adopt(ctx context.Context, path string) (runtime.Session, error) {
	slot, err := t.Get(path)
	if err != nil {
		return nil, err
	}
	session, err := slot.Adopt(ctx)
	if err != nil {
		return nil, fmt.Errorf("adopt %s: %w", path, err)
	}
	return session, nil
}

// Log is part of runtime.Runtime.
func (t *Table[S]) Log(path string) (string, error) { return LogFile(t.Dir, path) }

// Remove is part of runtime.Runtime.
func (t *Table[S]) Remove(ctx context.Context, path string) error {
	slot, err := t.Get(path)
	if err != nil {
		return err
	}
	if err := slot.Remove(ctx); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if any(t.slots[path]) == any(slot) { // else it was removed and made again meanwhile
		delete(t.slots, path)
	}
	return nil
}

// Await waits until c is closed. It fails when ctx is done or the table is closed.
func (t *Table[S]) Await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.Ctx.Done():
		return ErrClosed
	}
}

// Dir returns the directory of the slot of an agent. dir is that of all slots.
func Dir(dir, path string) (string, error) {
	name, err := wire.DirName(path)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, name), nil
}

// NotReady returns the error of a start whose incarnation has ended before it was ready.
func NotReady(exit supervisor.Exit) error {
	switch {
	case exit.Err == nil:
		return fmt.Errorf("%w: %v", supervisor.ErrNotReady, exit)
	case errors.Is(exit.Err, supervisor.ErrNotReady), errors.Is(exit.Err, supervisor.ErrStartTimeout):
		return exit.Err
	}
	return fmt.Errorf("%w: %w", supervisor.ErrNotReady, exit.Err)
}

// IsClosed reports whether a channel that is never sent to is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
