package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// logOf returns the file that keeps the output of an agent: of its slot in the runtime that it belongs
// in, or else of another slot. fs.ErrNotExist: there is none yet, and the name is that of the first.
// Links are not followed: to read one is refused.
func (c *Controller) logOf(path string) (string, error) {
	name, missing := "", fs.ErrNotExist
	if home := c.agents.Home(path); home != nil {
		file, err := home.Log(path)
		if err != nil {
			return "", err
		}
		if _, missing = os.Lstat(file); missing == nil {
			return file, nil
		}
		name = file
	}
	for _, kind := range slices.Sorted(maps.Keys(c.agents.Runtimes())) {
		if file, err := c.agents.Runtimes()[kind].Log(path); err == nil {
			if _, err := os.Lstat(file); err == nil {
				return file, nil
			}
		}
	}
	return name, missing
}

// kept are the last lines that the slots of an agent keep. fs.ErrNotExist: none does.
func (c *Controller) kept(path string, n int) ([]string, error) {
	file, err := c.logOf(path)
	if err != nil {
		return nil, err
	}
	return logfile.Peek(file, n)
}

// logged are the agents whose output some paths mean, in start order; all without a path.
func (c *Controller) logged(paths []string) ([]string, error) {
	f := c.fleet()
	if len(paths) == 0 {
		paths = []string{c.rootPath()}
	}
	wanted := make(map[string]bool)
	for _, path := range paths {
		path = c.resolvePath(path)
		if f.Agents[path] != nil {
			wanted[path] = true
			continue
		}
		if f.Nodes[path] == nil {
			return nil, c.noNode(path)
		}
		for agent := range f.Agents {
			if _, below := cutPath(agent, path); below {
				wanted[agent] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(f.Order), func(path string) bool { return !wanted[path] }), nil
}

// neverStarted says that of an agent that has no log and never had one.
func (c *Controller) neverStarted(path string) error {
	if _, err := c.logOf(path); errors.Is(err, fs.ErrNotExist) && c.last(path) == 0 {
		return fmt.Errorf("%s has not been started yet: %w", path, api.ErrConflict)
	}
	return nil
}
