package control

import (
	"context"
	"slices"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/supervisor"
)

// actOnTriggered carries out an action on an agent with an Aidefile. An order does not lift a limit,
// and its restarts count for the limit.
func (m *Manager) actOnTriggered(ctx context.Context, path string, action Action) error {
	act := func(ctx context.Context) error {
		return m.Triggers.Act(ctx, path, action, func(
			info supervisor.ChildInfo, restartCounted func(error) error) (bool, error) {
			by := api.OrderOf(ctx)
			running := info.State == supervisor.Running || info.State == supervisor.Starting
			switch {
			case by == "" || !action.starts():
			case isHeldByLimit(info.State):
				return true, heldForOrder(path, info.State)
			case info.State == supervisor.Restarting, action == Restart && running:
				return true, countedForOrder(path, restartCounted(&agent.TooOftenError{Order: by}))
			}
			return false, nil
		})
	}
	if action == Restart {
		return finish(ctx, act)
	}
	return act(ctx)
}

// actionBelow returns the action on a child that follows from an action on its supervisor, or false
// if there is none. Starting a supervisor makes agents with an Aidefile wait for their triggers.
// Restarting it restarts only those with a run.
func (m *Manager) actionBelow(path string, i supervisor.ChildInfo, action Action) (Action, bool) {
	switch {
	case !m.Triggers.Has(path):
	case action == Start:
		return Resume, true
	case action == Restart:
		return action, i.State == supervisor.Running || i.State == supervisor.Restarting
	}
	return action, true
}

// forgottenBelow returns the agents with an Aidefile that their supervisor does not list, since they
// are temporary and their last run has ended.
func (m *Manager) forgottenBelow(sup string, listed []supervisor.ChildInfo) (all []supervisor.ChildInfo) {
	n := m.Tree.Fleet().Nodes[sup]
	if n == nil {
		return nil
	}
	for _, child := range n.Children {
		name := child.Name()
		if child.Agent != nil && child.Agent.Aide != nil &&
			!slices.ContainsFunc(listed, func(i supervisor.ChildInfo) bool { return i.ID == name }) {
			all = append(all, m.Tree.Unlisted(sup+"/"+name))
		}
	}
	return all
}
