package controller

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// newTree returns what finds the nodes of a controller.
func newTree(c *Controller) *control.Tree {
	return &control.Tree{
		Fleet: c.fleet, Root: func() *supervisor.Supervisor { return c.root }, State: c.rootState,
		Session:   func(path string) runtime.Session { return c.agents.Session(path) },
		LastStart: func(path string) uint64 { return c.journal.LastStart(path) },
	}
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
