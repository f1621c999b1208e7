package status

import (
	"errors"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// declare fills in what the fleet declares of a node.
func (m *Model) declare(n *Node, f Fleet) {
	n.Kind, n.Host = kindAgent, m.opts.Host
	if d := f.Nodes[n.Path]; d != nil {
		n.Kind, n.Strategy = kindSupervisor, d.Strategy.String()
		if n.Path != f.RootPath {
			n.Restart = d.Restart.String()
		}
		if d.Template != nil {
			n.Placement = placement(d.Template)
		}
	} else if a := f.Agents[n.Path]; a != nil {
		n.Runtime, n.Terminal, n.Restart = place(a), hasTerminal(a), a.Restart.String()
		if m.opts.HostOf != nil {
			n.Host = m.opts.HostOf(n.Path)
		}
		n.Pipeline, n.User, n.NoNewPrivileges = a.Pipeline != nil, a.User, a.NoNewPrivileges
		n.ReadWritePaths, n.ReadOnlyPaths = a.ReadWritePaths, a.ReadOnlyPaths
		n.Placement = placement(a)
	}
	n.NeedsInput = m.needsInput(n.Path)
}

// placement returns on which nodes an agent may run; nil if on any.
func placement(a *spec.Agent) *spec.Placement {
	if a.Placement.IsZero() {
		return nil
	}
	return &a.Placement
}

// place returns what an agent runs in.
func place(a *spec.Agent) string {
	if a.Program != nil {
		return "program"
	}
	return a.Runtime.String()
}

// hasTerminal reports whether an agent runs in a terminal.
func hasTerminal(a *spec.Agent) bool { return a.Terminal || a.Runtime == spec.Tmux }

// needsInput returns what an agent waits for a person to say; nil if it does not.
func (m *Model) needsInput(path string) *NeedsInput {
	oldest, open := m.opts.Questions.Pending(path)
	if open == 0 {
		return nil
	}
	return &NeedsInput{ID: oldest.ID, Text: mail.Title(oldest.Text), At: oldest.At, Open: open}
}

// suspend shows a node that does not run because it is suspended like that.
func (m *Model) suspend(n *Node) {
	why := m.opts.SuspendedBy(n.Path)
	if why == "" || n.StoppedByHand { // which a resume does not change
		return
	}
	switch n.State {
	case supervisor.Stopped.String(), supervisor.Waiting.String():
		n.State, n.Reason, n.WaitsFor, n.NextAt = supervisor.Suspended.String(), why, "", nil
	}
}

// setLastExit fills in how a node ended last. A clean end has the word of the API.
func (n *Node) setLastExit(x supervisor.Exit) {
	n.ExitKind, n.ExitError, n.TooOftenBy = x.Kind.String(), "", ""
	_, waits := errors.AsType[*supervisor.RetryError](x.Err)
	n.LastExit, n.Failed = x.String(), !x.Clean() && !waits
	if x.Err == nil {
		n.LastExit = n.ExitKind
		return
	}
	n.ExitError = x.Err.Error()
	var often *agent.TooOftenError
	if errors.As(x.Err, &often) {
		n.TooOftenBy = often.Order
	}
}
