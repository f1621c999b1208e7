package control

import (
	"errors"
	"fmt"
	pathpkg "path"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// Tree finds the nodes of a tree of supervisors by their paths.
type Tree struct {
	Fleet func() *fleet.Fleet
	Root  func() *supervisor.Supervisor // nil before the tree is launched
	// State returns the state of the whole tree: Running, Stopping, Stopped.
	State func() supervisor.State
	// Session returns the last session of an agent, or nil if there was none yet.
	Session func(path string) runtime.Session
	// LastStart returns the incarnation of the last start in the log; 0 if none is known.
	LastStart func(path string) uint64
}

// Find returns the running supervisor of a path, or nil if there is none.
func (t *Tree) Find(path string) *supervisor.Supervisor {
	s := t.Root()
	for s != nil && s.Path() != path {
		rest, below := strings.CutPrefix(path, s.Path()+"/")
		if !below {
			return nil
		}
		id, _, _ := strings.Cut(rest, "/")
		child, err := s.Child(id)
		if err != nil {
			return nil
		}
		s = child.Sub
	}
	return s
}

// Child looks up a child. It also finds a temporary child that has ended, which its supervisor no
// longer lists.
func (t *Tree) Child(sup *supervisor.Supervisor, id string) (supervisor.ChildInfo, error) {
	info, err := sup.Child(id)
	if errors.Is(err, supervisor.ErrNotFound) {
		return t.Unlisted(sup.Path() + "/" + id), nil
	}
	return info, err
}

// Unlisted describes a node that no supervisor lists.
func (t *Tree) Unlisted(path string) supervisor.ChildInfo {
	info := supervisor.ChildInfo{
		ID: pathpkg.Base(path), State: supervisor.Stopped, Reason: supervisor.ReasonTemporary,
		Incarnation: t.LastIncarnation(path),
		Limit:       supervisor.Limit{Max: supervisor.Unlimited},
	}
	if s := t.Session(path); s != nil {
		select {
		case <-s.Done():
			info.LastExit = s.Exit()
		default:
		}
	}
	return info
}

// LastIncarnation returns the number of the last incarnation of an agent.
func (t *Tree) LastIncarnation(path string) uint64 {
	n := t.LastStart(path)
	if s := t.Session(path); s != nil {
		n = max(n, s.Observe().Incarnation)
	}
	return n
}

// Locate returns the supervisor of a node other than the root, and its ID there.
func (t *Tree) Locate(path string) (*supervisor.Supervisor, string, error) {
	if f := t.Fleet(); f.Agents[path] == nil && f.Nodes[path] == nil {
		return nil, "", f.NotFound(path)
	}
	sup := t.Find(pathpkg.Dir(path))
	if sup == nil {
		return nil, "", fmt.Errorf("%s: its supervisor does not run; coppice explain %[1]s says why: %w", path,
			api.ErrConflict)
	}
	return sup, pathpkg.Base(path), nil
}

// Error maps the library's errors to those of the API.
func Error(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, supervisor.ErrNotFound):
		return fmt.Errorf("%s: %w", path, api.ErrNotFound)
	case errors.Is(err, api.ErrInvalid), errors.Is(err, api.ErrConflict):
		return err
	case errors.Is(err, supervisor.ErrRunning):
		return fmt.Errorf("%w: %s is already running", api.ErrConflict, path)
	case errors.Is(err, supervisor.ErrNoSupervisor), errors.Is(err, supervisor.ErrStopping):
		return fmt.Errorf("%s: %w", path, api.ErrStopping)
	}
	return fmt.Errorf("%w: %w", api.ErrConflict, err)
}
