package fleet

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// StartFunc starts one incarnation of an agent.
type StartFunc = func(context.Context) (supervisor.Process, error)

// Building has the functions that make the specifications of the supervisors.
type Building struct {
	// Start returns the Start function of an agent.
	Start func(a *spec.Agent, signal syscall.Signal) (StartFunc, error)
	// Saved returns the saved state of a node, or nil. It may be nil.
	Saved func(path string) (*supervisor.Saved, *supervisor.SavedSelf)
	// Suspended: the project is suspended. The reconciler starts it when it is resumed.
	Suspended bool
	// Once: the tree ends when it has nothing left to run.
	Once bool
	// Earlier is the previous fleet, or nil. What has not changed keeps its specification:
	// that of an agent may know what its first incarnation was started with.
	Earlier *Fleet
}

// Specify makes the specifications of the supervisors.
func (f *Fleet) Specify(o Building) error {
	b := &builder{Building: o, manual: f.Manual}
	root, err := b.node(f.Tree.Root, f.Tree.Root.Name)
	if err != nil {
		return err
	}
	if o.Once && root.AutoShutdown == supervisor.NeverShutdown && !f.Awaits() {
		root.AutoShutdown = supervisor.WhenDone
	}
	f.Root = root
	f.index(root.Name, root)
	return nil
}

// index adds the specifications below a supervisor to Specs.
func (f *Fleet) index(path string, s *supervisor.Spec) {
	for _, child := range s.Children {
		f.Specs[path+"/"+child.ID] = child
		if child.Supervisor != nil {
			f.index(path+"/"+child.ID, child.Supervisor)
		}
	}
}

// builder makes supervisor specifications of a desired tree.
type builder struct {
	Building
	manual map[string]bool // Fleet.Manual
}

// node makes the specification of a supervisor. Failed starts are retried: one agent that
// does not get ready must not keep a fleet from starting.
func (b *builder) node(n *spec.Node, path string) (*supervisor.Spec, error) {
	s := &supervisor.Spec{
		Name: n.Name, Strategy: n.Strategy, Limit: n.Limit, AutoShutdown: n.AutoShutdown,
		StartFailure: supervisor.Retry, StopTogether: !n.StopsInOrder(),
	}
	_, s.Saved = b.saved(path)
	if b.Earlier != nil && s.Saved == nil && b.Earlier.Nodes[path] != nil && b.Earlier.Specs[path].Supervisor != nil {
		s.Saved = b.Earlier.Specs[path].Supervisor.Saved
	}
	root, added := !strings.Contains(path, "/"), false
	for _, c := range n.Children {
		below := path + "/" + c.Name()
		child, err := b.child(c, below)
		if err != nil {
			return nil, err
		}
		child.Saved = b.savedChild(c, below)
		isNew := b.Earlier != nil && b.Earlier.Nodes[path] != nil && !b.had(c, below)
		added = added || isNew
		child.ManualStart = b.manual[below] || root && b.Suspended || isNew ||
			added && n.Strategy != supervisor.OneForOne // which starts after it
		s.Children = append(s.Children, child)
	}
	if b.Earlier != nil && !root && reflect.DeepEqual(b.Earlier.Nodes[path], n) {
		return b.Earlier.Specs[path].Supervisor, nil
	}
	return s, nil
}

// had reports whether the previous fleet has a child, and not as something else.
func (b *builder) had(c spec.Child, path string) bool {
	return b.Earlier != nil && (b.Earlier.Agents[path] != nil && c.Agent != nil ||
		b.Earlier.Nodes[path] != nil && c.Node != nil)
}

// savedChild returns the saved state of a child. What the previous fleet knows counts, too:
// its supervisor may never have run.
func (b *builder) savedChild(c spec.Child, path string) *supervisor.Saved {
	saved, _ := b.saved(path)
	if !b.had(c, path) || b.Earlier.Specs[path].Saved == nil {
		return saved
	}
	earlier := b.Earlier.Specs[path].Saved
	if saved == nil {
		return earlier
	}
	saved.Incarnation = max(saved.Incarnation, earlier.Incarnation)
	return saved
}

func (b *builder) child(c spec.Child, path string) (supervisor.ChildSpec, error) {
	if n := c.Node; n != nil {
		sub, err := b.node(n, path)
		return supervisor.ChildSpec{
			ID: n.Name, Supervisor: sub, Restart: n.Restart, Backoff: n.Backoff, Significant: n.Significant,
		}, err
	}
	if b.Earlier != nil {
		if s, ok := b.Earlier.Specs[path]; ok && s.Start != nil &&
			reflect.DeepEqual(b.Earlier.Agents[path], c.Agent) {
			return s, nil
		}
	}
	s, err := b.agent(c.Agent)
	if err != nil {
		return s, fmt.Errorf("agent %s: %w", path, err)
	}
	return s, nil
}

func (b *builder) saved(path string) (*supervisor.Saved, *supervisor.SavedSelf) {
	if b.Saved == nil {
		return nil, nil
	}
	return b.Saved(path)
}

// agent makes the specification of a leaf.
func (b *builder) agent(a *spec.Agent) (supervisor.ChildSpec, error) {
	_, signal, ok := spec.ParseSignal(a.Shutdown.Signal)
	if !ok {
		return supervisor.ChildSpec{}, fmt.Errorf("unknown signal %q", a.Shutdown.Signal)
	}
	start, err := b.Start(a, signal)
	if err != nil {
		return supervisor.ChildSpec{}, err
	}
	c := supervisor.ChildSpec{
		ID: a.Name, Start: start, Restart: a.Restart, Backoff: a.Backoff, Limit: a.Limit, Significant: a.Significant,
		Shutdown: a.Shutdown.Grace + a.Hooks.Resting.Timeout,
	}
	if signal == syscall.SIGKILL {
		c.Shutdown = supervisor.BrutalKill
	}
	if a.Ready.IsSet() && a.Program == nil { // an agent of a program may take any time
		// The timeout of the runtime comes first: its error says what was wrong at the last check.
		c.StartTimeout = a.Ready.Timeout + max(0, a.Shutdown.Grace) + supervisor.KillGrace
		for _, h := range a.Hooks.Named() {
			c.StartTimeout += h.Timeout // hooks have timeouts of their own
		}
	}
	return c, nil
}
