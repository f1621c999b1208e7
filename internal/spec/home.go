package spec

import (
	"path/filepath"
	"slices"
	"strings"
)

// SetHome notes in all agents that the project is in a directory, see Agent.Home.
func (t *Tree) SetHome(dir string) {
	for _, child := range t.All() {
		if a := child.Agent; a != nil {
			a.Home = dir
		} else if a := child.Node.Template; a != nil {
			a.Home = dir
		}
	}
}

// portable returns a path as it is hashed: one in the Home of the agent is the same on all machines.
func (a *Agent) portable(path string) string {
	if a.Home == "" || path == "" {
		return path
	}
	if rel, err := filepath.Rel(a.Home, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// allPortable is portable for paths that may have "-" in front: see landlock.Optional.
func (a *Agent) allPortable(paths []string) []string {
	paths = slices.Clone(paths)
	for i, path := range paths {
		name, optional := strings.CutPrefix(path, "-")
		if paths[i] = a.portable(name); optional {
			paths[i] = "-" + paths[i]
		}
	}
	return paths
}

// located is the reverse of portable.
func (a *Agent) located(path string) string {
	if a.Home == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(a.Home, path)
}
