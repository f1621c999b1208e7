package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/coppice-dev/coppice/internal/api"
)

// output are the last lines of an agent, whether it runs or not.
func (c *Controller) output(path string, n int) ([]string, error) {
	path = c.full(path)
	switch f := c.fleet(); {
	case f.nodes[path] != nil:
		return nil, fmt.Errorf("%s is a supervisor, which has no output of its own: %w", path, api.ErrConflict)
	case f.agents[path] == nil:
		return nil, c.noNode(path)
	}
	lines, err := c.kept(path, n)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return lines, err
	case c.last(path) > 0:
		return nil, nil // it was silent
	}
	return nil, fmt.Errorf("%s has not been started yet: %w", path, api.ErrConflict)
}

// kept are the last lines that the slots of an agent keep: the one that it is at
// home in, or else another one. fs.ErrNotExist: none does.
func (c *Controller) kept(path string, n int) ([]string, error) {
	err := fs.ErrNotExist
	if home := c.home(path); home != nil {
		var lines []string
		if lines, err = home.Tail(path, n); !errors.Is(err, fs.ErrNotExist) {
			return lines, err
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(c.places)) {
		if lines, e := c.places[kind].Tail(path, n); e == nil {
			return lines, nil
		}
	}
	return nil, err
}
