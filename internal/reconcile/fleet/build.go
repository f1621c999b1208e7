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

// Building says how the specifications of the supervisors are made.
type Building struct {
	// Start returns the Start function of an agent.
	Start func(a *spec.Agent, signal syscall.Signal) (StartFunc, error)
	// Saved returns the saved state of a node, or nil. It may be nil.
	Saved func(path string) (*supervisor.Saved, *supervisor.SavedSelf)
	// Suspended: the project is suspended. The reconciler starts it when it is resumed.
	Suspended bool
	// Once: the tree ends when it has nothing left to run.
	Once bool
	// Earlier is the previous fleet, or nil. An agent that has not changed keeps its
	// specification, which may know what its first incarnation was started with.
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
		bare := child
		bare.Saved = nil
		f.Specs[path+"/"+child.ID] = bare
		if child.Supervisor != nil {
			f.index(path+"/"+child.ID, child.Supervisor)
		}
	}
}

// Spec returns the specification of a supervisor, or nil.
func (f *Fleet) Spec(path string) *supervisor.Spec {
	if path == f.Root.Name {
		return f.Root
	}
	return f.Specs[path].Supervisor
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
	root := !strings.Contains(path, "/")
	for _, c := range n.Children {
		child, err := b.child(c, path+"/"+c.Name())
		if err != nil {
			return nil, err
		}
		child.Saved, _ = b.saved(path + "/" + c.Name())
		child.ManualStart = b.manual[path+"/"+c.Name()] || root && b.Suspended
		s.Children = append(s.Children, child)
	}
	return s, nil
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
	if a.Ready.Stated() {
		// The timeout of the runtime comes first: its error says what was wrong at the last check.
		c.StartTimeout = a.Ready.Timeout + max(0, a.Shutdown.Grace) + supervisor.KillGrace
		for _, h := range a.Hooks.Named() {
			c.StartTimeout += h.Timeout // hooks have timeouts of their own
		}
	}
	return c, nil
}
