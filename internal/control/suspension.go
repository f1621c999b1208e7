package control

import (
	"context"
	"encoding/json"
	"fmt"
	pathpkg "path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// suspensionKey is the store key of the suspension of the project.
const suspensionKey = "project/suspended"

// suspension is the suspension of the whole project by a person: nothing starts
// until it is resumed, whatever the file says. Agents that were stopped by hand
// before stay stopped after that.
type suspension struct {
	changing sync.Mutex                // held while it begins or ends
	since    atomic.Pointer[time.Time] // nil: the project is not suspended
}

// Restore reads the suspension of the project from the store.
func (m *Manager) Restore(ctx context.Context) error {
	stored, _, err := m.Store.Snapshot(ctx, suspensionKey)
	if err != nil {
		return fmt.Errorf("reading whether the project is suspended: %w", err)
	}
	if len(stored) == 0 || m.Once {
		return nil
	}
	var since time.Time
	if json.Unmarshal(stored[0].Value, &since) != nil || since.IsZero() {
		since = m.Started // the suspension holds, even if its time is damaged
	}
	m.suspension.since.Store(&since)
	return nil
}

// IsProjectSuspended reports whether a person has suspended the project.
func (m *Manager) IsProjectSuspended() bool { return m.suspension.since.Load() != nil }

// SuspendedBy returns why a node is suspended by the project or by the file, or "" if it is not.
func (m *Manager) SuspendedBy(path string) string {
	f := m.Tree.Fleet()
	switch {
	case m.IsProjectSuspended():
		return "the project is suspended"
	case f.Tree.Root.Suspended:
		return "the file suspends the project"
	case f.Suspended(path):
		return "the file suspends it"
	}
	return ""
}

// ProjectSuspended returns why the whole project is suspended and how to resume it, or "" if it is
// not.
func (m *Manager) ProjectSuspended() string {
	since := m.suspension.since.Load()
	switch {
	case since != nil:
		return fmt.Sprintf("suspended by hand since %s; go on with: coppice resume",
			since.Local().Format(time.DateTime))
	case m.Tree.Fleet().Tree.Root.Suspended:
		return "suspended by the file: [project] suspended = true"
	}
	return ""
}

// Suspended reports whether a node, a supervisor above it or the project is suspended, by a person or
// by the file. A stop by hand counts as a suspension. The empty path means the project.
func (m *Manager) Suspended(path string) bool {
	path = m.Tree.Fleet().Resolve(path)
	if m.SuspendedBy(path) != "" {
		return true
	}
	for ; path != m.Tree.Fleet().Tree.Root.Name; path = pathpkg.Dir(path) {
		sup := m.Tree.Find(pathpkg.Dir(path))
		if sup == nil {
			continue // a supervisor above it does not run, and is checked next
		}
		if info, err := sup.Child(pathpkg.Base(path)); err == nil && info.State == supervisor.Suspended {
			return true
		}
	}
	return false
}

// suspendProject stops everything until resumeProject. The suspension holds from the beginning, also
// if ctx ends.
func (m *Manager) suspendProject(ctx context.Context) error {
	m.suspension.changing.Lock()
	defer m.suspension.changing.Unlock()
	root := m.Tree.Root().Path()
	if !m.IsProjectSuspended() {
		since := time.Now()
		m.suspension.since.Store(&since)
		value, _ := json.Marshal(since) // a time of this century
		var ops []store.Op
		if !m.Once {
			ops = append(ops, store.Op{Kind: store.Put, Key: suspensionKey, Value: value})
		}
		if err := m.Journal.Write(event.Event{
			Type: event.ProjectSuspended, Path: root, Actor: "user",
			Message: root + " is suspended by hand, with everything in it",
		}, ops...); err != nil {
			m.Logger.Warn("cannot persist the suspension of the project", "error", err)
		}
	}
	return m.stopBelow(ctx, root, func(ctx context.Context) error {
		m.Reconcile.Enqueue()
		return m.Reconcile.AwaitIdle(ctx)
	})
}

// resumeProject starts everything again that was not stopped or suspended on its own.
func (m *Manager) resumeProject(ctx context.Context) error {
	m.suspension.changing.Lock()
	defer m.suspension.changing.Unlock()
	root := m.Tree.Root().Path()
	m.suspension.since.Store(nil)
	if err := m.Journal.Write(event.Event{
		Type: event.ProjectResumed, Path: root, Actor: "user", Message: root + " is resumed by hand",
	}, store.Op{Kind: store.Delete, Key: suspensionKey}); err != nil {
		m.Logger.Warn("cannot persist that the project is resumed", "error", err)
	}
	if m.Tree.Fleet().Tree.Root.Suspended {
		return fmt.Errorf("%w: the file suspends the project, too; remove suspended = true from [project]",
			api.ErrConflict)
	}
	m.Reconcile.Enqueue()
	return m.Reconcile.AwaitIdle(ctx)
}

// actOnProject carries out an action on the whole tree.
func (m *Manager) actOnProject(ctx context.Context, action Action) (done Acted, err error) {
	root := m.Tree.Root().Path()
	switch action {
	case Suspend:
		m.AdoptBelow(ctx, root)
		return Acted{Changed: 1}, m.suspendProject(ctx)
	case Resume:
		if m.IsProjectSuspended() {
			return Acted{Changed: 1}, m.resumeProject(ctx)
		}
	case Stop:
		m.AdoptBelow(ctx, root)
		err = m.stopBelow(ctx, root, func(ctx context.Context) (err error) {
			done, err = m.actBelow(ctx, m.Tree.Root(), action)
			return err
		})
		return done, err
	}
	if err := m.checkSuspended(root, action); err != nil {
		return done, err
	}
	return m.actBelow(ctx, m.Tree.Root(), action)
}

// checkSuspended returns an error if an action would start a suspended node.
func (m *Manager) checkSuspended(path string, action Action) error {
	switch why := m.SuspendedBy(path); {
	case why == "" || !action.starts():
		return nil
	case m.IsProjectSuspended():
		return fmt.Errorf("%w: %s: %s; go on with: coppice resume", api.ErrConflict, path, why)
	default:
		return fmt.Errorf("%w: %s: %s; remove suspended = true there", api.ErrConflict, path, why)
	}
}
