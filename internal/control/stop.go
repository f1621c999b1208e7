package control

import (
	"context"
	pathpkg "path"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-dev/coppice/supervisor"
)

// suspendChild stops a child so that it stays down.
func (m *Manager) suspendChild(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo,
	why supervisor.Reason) error {
	path := sup.Path() + "/" + info.ID
	m.AdoptBelow(ctx, path)
	return m.StopChild(ctx, path, info, func(ctx context.Context) error { return sup.SuspendChild(ctx, info.ID, why) })
}

// adoptTime is the time for which a stop waits for adoptions.
const adoptTime = time.Second

// maxAdoptions is the number of agents that are adopted in parallel.
const maxAdoptions = 16

// AdoptBelow adopts the agents at and below a path that were found running, since a supervisor can
// stop only its own children. An agent that is not adopted within adoptTime counts as starting, and
// its start is stopped.
func (m *Manager) AdoptBelow(ctx context.Context, path string) {
	var agents []string
	above := make(map[string]bool) // supervisors of these, at and below path
	for _, at := range m.Adoptions() {
		if !below(at, path) {
			continue
		}
		agents = append(agents, at)
		for up := pathpkg.Dir(at); below(up, path); up = pathpkg.Dir(up) {
			above[up] = true
		}
	}
	if len(agents) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTime)
	defer cancel()
	ensure := func(path string) {
		if sup, id, err := m.Tree.Locate(path); err == nil {
			sup.EnsureChild(ctx, id) // unless it was started meanwhile
		}
	}
	for _, at := range m.Tree.Fleet().Order { // parents first
		if above[at] {
			ensure(at)
		}
	}
	var g errgroup.Group
	g.SetLimit(maxAdoptions)
	for _, path := range agents {
		g.Go(func() error { ensure(path); return nil })
	}
	g.Wait()
}

// StopChild stops a child by calling stop. The agents of a supervisor stop in order, which continues
// when ctx ends.
func (m *Manager) StopChild(
	ctx context.Context, path string, child supervisor.ChildInfo, stop func(context.Context) error,
) error {
	if child.Sub == nil || m.Stopper.IsStopping(path) {
		return stop(ctx)
	}
	return m.stopBelow(ctx, path, stop)
}

// stopBelow stops a part of the tree in order, while stop stops its supervisors. It continues when ctx
// ends.
func (m *Manager) stopBelow(ctx context.Context, path string, stop func(context.Context) error) error {
	return finish(ctx, func(ctx context.Context) error { return m.Stopper.Stop(ctx, path, stop) })
}

// below reports whether a path is that of a node or of a descendant.
func below(path, node string) bool { return path == node || strings.HasPrefix(path, node+"/") }
