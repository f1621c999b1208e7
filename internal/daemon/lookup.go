package daemon

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// child looks up a child. Its supervisor no longer lists a temporary one that has ended,
// but the file still names it.
func (c *Controller) child(sup *supervisor.Supervisor, id string) (supervisor.ChildInfo, error) {
	info, err := sup.Child(id)
	if errors.Is(err, supervisor.ErrNotFound) {
		return c.forgotten(sup.Path() + "/" + id), nil
	}
	return info, err
}

// forgotten returns what is known of a node that no supervisor lists.
func (c *Controller) forgotten(path string) supervisor.ChildInfo {
	_, id, _ := cutLast(path)
	info := supervisor.ChildInfo{
		ID: id, State: supervisor.Stopped, Reason: supervisor.ReasonTemporary, Incarnation: c.last(path),
		Limit: supervisor.Limit{Max: supervisor.Unlimited},
	}
	if s := c.live(path); s != nil {
		select {
		case <-s.Done():
			info.LastExit = s.Exit()
		default:
		}
	}
	return info
}

// rootState returns the state of the whole tree.
func (c *Controller) rootState() supervisor.State {
	select {
	case <-c.ended:
		return supervisor.Stopped
	case <-c.down:
		return supervisor.Stopping
	default:
		return supervisor.Running
	}
}

// live is the last session of an agent; nil if there was none yet.
func (c *Controller) live(path string) runtime.Session {
	return c.agents.Session(path)
}

// last is the number of the last incarnation of an agent.
func (c *Controller) last(path string) uint64 {
	n := c.journal.LastStart(path)
	if s := c.agents.Session(path); s != nil {
		n = max(n, s.Observe().Incarnation)
	}
	return n
}

// locate returns the supervisor of a node that is not the root, and its ID there.
func (c *Controller) locate(path string) (*supervisor.Supervisor, string, error) {
	if c.fleet().Agents[path] == nil && c.fleet().Nodes[path] == nil {
		return nil, "", c.noNode(path)
	}
	above, id, _ := cutLast(path)
	sup := c.find(above)
	if sup == nil {
		return nil, "", fmt.Errorf("%s: its supervisor does not run; coppice explain %[1]s says why: %w", path,
			api.ErrConflict)
	}
	return sup, id, nil
}

// parent returns the path of the supervisor of a node, empty for the root.
func parent(path string) string {
	above, _, _ := cutLast(path)
	return above
}

func cutLast(path string) (above, id string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// notFound maps the library's errors to those of the API.
func notFound(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, supervisor.ErrNotFound):
		return fmt.Errorf("%s: %w", path, api.ErrNotFound)
	case errors.Is(err, api.ErrInvalid), errors.Is(err, api.ErrConflict):
		return err // which says so itself
	case errors.Is(err, supervisor.ErrRunning):
		return fmt.Errorf("%w: %s is already running", api.ErrConflict, path)
	case errors.Is(err, supervisor.ErrNoSupervisor), errors.Is(err, supervisor.ErrStopping):
		return fmt.Errorf("%s: %w", path, api.ErrStopping)
	}
	return fmt.Errorf("%w: %w", api.ErrConflict, err)
}
