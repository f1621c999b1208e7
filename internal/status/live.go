package status

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// Live are the parts of a daemon that a Model joins.
type Live struct {
	Version string
	Started time.Time

	// Root is the supervisor of everything, once it was launched, and RootState its state.
	Root      func() *supervisor.Supervisor
	RootState func() supervisor.State
	// Supervisor returns the running supervisor at a path; nil if none runs there.
	Supervisor func(path string) *supervisor.Supervisor
	// Unlisted returns what is known of a node that no supervisor lists.
	Unlisted func(path string) supervisor.ChildInfo
	// Session returns the last session of an agent; nil if there was none yet.
	Session func(path string) runtime.Session
	// AttachCommand returns how a person gets into the session of an agent without coppice,
	// for runtimes that have such sessions; no words for others.
	AttachCommand func(path string) (argv []string, dir string)

	Health interface {
		API(path string) *health.Info
		Activity(path string) (health.Activity, bool)
		AwaitsTask(path string) bool
	}
	Drains interface {
		API(path string) *drain.Info
	}
	Pools interface {
		API(path string) *pool.Info
		Explain(path string, runs bool) pool.Explanation
	}
	// Triggered returns what is special about an agent that triggers start; nil for others.
	Triggered func(path string, i supervisor.ChildInfo) *Triggered
	// Waits returns what an agent has waited for since the last pass of the reconciler.
	Waits func(path string) (reconcile.Delay, bool)
	// Standing returns what the reconciler makes of a node; nil if it is not in the fleet.
	Standing func(n Node, now time.Time) *Standing
	// LastPass returns when the last reconciliation pass has ended.
	LastPass func() time.Time
	// Resumable reports whether a person has suspended the project.
	Resumable func() bool
}

// Triggered is the state of an agent of an Aidefile.
type Triggered struct {
	Aide     *trigger.Info
	NextFire *time.Time
	Held     supervisor.Reason // why its triggers start nothing; NoReason: they do
	Reason   string            // why it is in its state; "" where its supervisor knows
	Next     string            // what happens next; "" where its supervisor knows
	Hint     string            // what a person can do about that
	Evidence []string
}

// live is the source of the nodes of a daemon.
type live struct {
	Live
	*Model
}

// New returns the model of a daemon.
func New(o Options, l Live) *Model {
	m := &Model{opts: o}
	m.source = live{l, m}
	return m
}

func (live) serving() bool { return true }

func (l live) controller() Controller {
	return Controller{PID: os.Getpid(), Host: l.opts.Host, Version: l.Version, StartedAt: l.Started,
		Uptime: time.Since(l.Started).Seconds(), ReconciledAt: l.LastPass()}
}

func (l live) nodes(path string) ([]Node, error) {
	f := l.opts.Fleet()
	if path == f.RootPath {
		all := make([]Node, 0, len(f.Agents)+len(f.Nodes))
		return l.walk(append(all, l.rootNode(f)), l.Root(), f), nil
	}
	above, id := cut(path)
	sup := l.Supervisor(above)
	if sup == nil {
		n, err := l.downAt(path, f)
		if err != nil {
			return nil, err
		}
		return l.down([]Node{n}, path, n, f), nil
	}
	info, err := l.child(sup, id)
	if err != nil {
		return nil, err
	}
	return l.below([]Node{l.node(path, info, f)}, info.Sub, f), nil
}

func (l live) rootNode(f Fleet) Node {
	n := Node{Path: f.RootPath, State: l.RootState().String(), LimitMax: supervisor.Unlimited}
	l.declare(&n, f)
	n.StartedAt, n.Uptime = &l.Started, time.Since(l.Started).Seconds()
	if why := l.opts.SuspendedBy(n.Path); why != "" && n.State == supervisor.Running.String() {
		n.State, n.Reason = supervisor.Suspended.String(), why
	}
	return n
}

// child looks up a child. Its supervisor no longer lists a temporary one that has ended,
// but the file still names it.
func (l live) child(sup *supervisor.Supervisor, id string) (supervisor.ChildInfo, error) {
	info, err := sup.Child(id)
	switch path := sup.Path() + "/" + id; {
	case errors.Is(err, supervisor.ErrNotFound):
		return l.Unlisted(path), nil
	case err != nil:
		return info, fmt.Errorf("%s: %w", path, api.ErrStopping)
	}
	return info, nil
}

// below appends what is below the last node, whose supervisor is s if it is one that runs.
func (l live) below(all []Node, s *supervisor.Supervisor, f Fleet) []Node {
	if s == nil {
		n := all[len(all)-1]
		return l.down(all, n.Path, n, f)
	}
	return l.walk(all, s, f)
}

// walk appends what is below a supervisor. A root that has just ended has nothing.
func (l live) walk(all []Node, s *supervisor.Supervisor, f Fleet) []Node {
	children, err := s.Children()
	if err != nil {
		if s.Path() == f.RootPath {
			return all
		}
		n := all[len(all)-1]
		return l.down(all, n.Path, n, f)
	}
	listed := make(map[string]bool, len(children))
	own := &all[len(all)-1]
	for _, info := range children {
		if info.Limit.Scope == supervisor.ScopeSupervisor {
			own.SetLimit(info.Limit, info.InWindow)
		}
	}
	for _, info := range children {
		listed[info.ID] = true
		all = append(all, l.node(s.Path()+"/"+info.ID, info, f))
		all = l.below(all, info.Sub, f)
	}
	if d := f.Nodes[s.Path()]; d != nil {
		for _, child := range d.Children {
			if name := child.Name(); !listed[name] {
				path := s.Path() + "/" + name
				all = l.below(append(all, l.node(path, l.Unlisted(path), f)), nil, f)
			}
		}
	}
	return all
}

// node returns a child as its supervisor and all others know it.
func (l live) node(path string, i supervisor.ChildInfo, f Fleet) Node {
	n := Node{Path: path, Incarnation: i.Incarnation, Restarts: i.Restarts, LimitMax: supervisor.Unlimited}
	l.declare(&n, f)
	n.State, n.Reason = journal.StateOf(i.State, i.Reason)
	switch {
	case i.Limit.Scope == supervisor.ScopeChild:
		n.SetLimit(i.Limit, i.InWindow)
	case i.Limit.Max >= 0:
		n.LimitOf = parent(path)
	}
	if i.State == supervisor.Running || i.State == supervisor.Stopping || i.State == supervisor.Starting {
		n.StartedAt, n.Uptime = new(i.StartedAt), i.Uptime.Seconds() // a copy, else all of i lives as long as n
	}
	if !i.NextAt.IsZero() {
		n.NextAt = new(i.NextAt)
	}
	if n.Kind == kindSupervisor {
		n.Pool = l.Pools.API(path)
	} else {
		l.addAgent(&n, &i)
	}
	if before := f.After[path]; before != "" && i.State == supervisor.Waiting && i.Reason == supervisor.NoReason {
		n.Reason = "waits for its turn after " + before
	}
	if w, ok := l.Waits(path); ok {
		switch {
		case w.For != "":
			n.WaitsFor, n.Reason = w.For, "waits for "+w.For
		case n.NextAt == nil:
			n.Reason, n.NextAt = fmt.Sprintf("to be started again (%v), but was started too often", w.Cause), &w.Until
		}
	}
	if i.LastExit.Kind != supervisor.NoExit {
		n.setLastExit(i.LastExit)
	}
	if e, ok := errors.AsType[*supervisor.RetryError](i.LastExit.Err); ok && i.Reason == supervisor.ReasonRetry &&
		e.Err != nil {
		n.Reason = e.Err.Error()
	}
	n.StoppedByHand = journal.StoppedByHand(i.State, i.Reason)
	l.suspend(&n)
	return n
}

// addAgent fills in what supervisors do not know of an agent. One that its triggers do not
// start has the state of what is suspended.
func (l live) addAgent(n *Node, i *supervisor.ChildInfo) {
	if i.State == supervisor.Running {
		if s := l.Session(n.Path); s != nil {
			o := s.Observe()
			n.PID, n.StatusText = o.PID, o.Said.Status
		}
	}
	n.Vitals, n.Drain = l.Health.API(n.Path), l.Drains.API(n.Path)
	t := l.Triggered(n.Path, *i)
	n.Loop = loopOf(*i, t != nil || n.Pipeline)
	if t == nil {
		return
	}
	if n.Aide = t.Aide; n.NextAt == nil {
		n.NextAt = t.NextFire
	}
	if t.Held != supervisor.NoReason && i.State == supervisor.Stopped { // which its supervisor does not know
		i.State, i.Reason = supervisor.Suspended, t.Held
		n.State, n.Reason = journal.StateOf(i.State, i.Reason)
	}
	if t.Reason != "" {
		n.Reason = t.Reason
	}
}
