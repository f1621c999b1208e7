package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// suspensionKey is there while a person has suspended the whole project.
const suspensionKey = "project/suspended"

// suspension is that a person has suspended the whole project: nothing is
// started until it is resumed, whatever the file says and becomes. Agents that
// were stopped by hand before stay so after that.
type suspension struct {
	changing sync.Mutex // held while it begins or ends

	mu    sync.Mutex
	since time.Time // zero: it is not suspended
}

func (s *suspension) begun() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}

func (s *suspension) set(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = since
}

// recallSuspension reads whether a person has suspended the project before.
func (c *Controller) recallSuspension(ctx context.Context) error {
	stored, _, err := c.opts.Store.Snapshot(ctx, suspensionKey)
	if err != nil {
		return fmt.Errorf("reading whether the project is suspended: %w", err)
	}
	if len(stored) == 0 || c.opts.Once {
		return nil
	}
	var since time.Time
	if json.Unmarshal(stored[0].Value, &since) != nil || since.IsZero() {
		since = c.started // what a person has decided holds, whenever that was
	}
	c.project.set(since)
	return nil
}

// suspendedBy returns why a node of the fleet is suspended, such as "the project is suspended" or
// "the file suspends it"; "" if it is not.
func (c *Controller) suspendedBy(f *fleet.Fleet, path string) string {
	switch {
	case !c.project.begun().IsZero():
		return "the project is suspended"
	case f.Tree.Root.Suspended:
		return "the file suspends the project"
	case f.Suspended(path):
		return "the file suspends it"
	}
	return ""
}

// projectSuspended says why the whole project does not run, and what to do; "" if it does.
func (c *Controller) projectSuspended() string {
	since := c.project.begun()
	switch {
	case !since.IsZero():
		return fmt.Sprintf("suspended by hand since %s; go on with: coppice resume",
			since.Local().Format(time.DateTime))
	case c.fleet().Tree.Root.Suspended:
		return "suspended by the file: [project] suspended = true"
	}
	return ""
}

// Suspended reports whether a node is not to run because it, something above it
// or the project is suspended, by a person or by the file. The empty path is
// that of the project. A stop by hand counts as one.
func (c *Controller) Suspended(path string) bool {
	path = c.resolvePath(path)
	if c.suspendedBy(c.fleet(), path) != "" {
		return true
	}
	for ; path != c.rootPath(); path = parent(path) {
		sup := c.find(parent(path))
		if sup == nil {
			continue // something above it does not run, and says why
		}
		_, id, _ := cutLast(path)
		if info, err := sup.Child(id); err == nil && info.State == supervisor.Suspended {
			return true
		}
	}
	return false
}

// suspendProject stops everything until resumeProject. A caller that does not have to
// wait for that may return before: it holds from the beginning.
func (c *Controller) suspendProject(ctx context.Context) error {
	c.project.changing.Lock()
	defer c.project.changing.Unlock()
	root := c.root.Path()
	if c.project.begun().IsZero() {
		since := time.Now()
		c.project.set(since)
		value, _ := json.Marshal(since) // a time of this century
		var ops []store.Op
		if !c.opts.Once {
			ops = append(ops, store.Op{Kind: store.Put, Key: suspensionKey, Value: value})
		}
		if err := c.journal.Write(event.Event{
			Type: event.ProjectSuspended, Path: root, Actor: "user",
			Message: root + " is suspended by hand, with all in it",
		}, ops...); err != nil {
			c.opts.Logger.Warn("that the project is suspended may not survive this controller", "error", err)
		}
	}
	return c.stopBelow(ctx, root, func(ctx context.Context) error {
		c.loop.Enqueue()
		return c.loop.AwaitIdle(ctx)
	})
}

// resumeProject lets everything start again that was not stopped by itself.
func (c *Controller) resumeProject(ctx context.Context) error {
	c.project.changing.Lock()
	defer c.project.changing.Unlock()
	root := c.root.Path()
	c.project.set(time.Time{})
	if err := c.journal.Write(event.Event{
		Type: event.ProjectResumed, Path: root, Actor: "user", Message: root + " is resumed by hand",
	}, store.Op{Kind: store.Delete, Key: suspensionKey}); err != nil {
		c.opts.Logger.Warn("that the project is resumed may not survive this controller", "error", err)
	}
	if c.fleet().Tree.Root.Suspended {
		return fmt.Errorf("%w: the file suspends the project, too; remove suspended = true from [project]",
			api.ErrConflict)
	}
	c.loop.Enqueue()
	return c.loop.AwaitIdle(ctx)
}

// actOnProject does something to everything.
func (c *Controller) actOnProject(ctx context.Context, action api.Action) (done api.Acted, err error) {
	root := c.root.Path()
	switch action {
	case api.Suspend:
		c.adoptBelow(ctx, root)
		return api.Acted{Changed: 1}, c.suspendProject(ctx)
	case api.Resume:
		if !c.project.begun().IsZero() {
			return api.Acted{Changed: 1}, c.resumeProject(ctx)
		}
	case api.Stop:
		c.adoptBelow(ctx, root)
		err = c.stopBelow(ctx, root, func(ctx context.Context) (err error) {
			done, err = c.actBelow(ctx, c.root, action)
			return err
		})
		return done, err
	}
	if err := c.mayStart(root, action); err != nil {
		return done, err
	}
	return c.actBelow(ctx, c.root, action)
}

// mayStart refuses to start what is suspended.
func (c *Controller) mayStart(path string, action api.Action) error {
	switch action {
	case api.Start, api.Restart, api.Resume:
	default:
		return nil
	}
	switch why := c.suspendedBy(c.fleet(), path); {
	case why == "":
		return nil
	case !c.project.begun().IsZero():
		return fmt.Errorf("%w: %s: %s; go on with: coppice resume", api.ErrConflict, path, why)
	default:
		return fmt.Errorf("%w: %s: %s; remove suspended = true there", api.ErrConflict, path, why)
	}
}
