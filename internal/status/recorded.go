package status

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Recorded reads the records of the last daemon of a project while none runs.
type Recorded struct {
	Started time.Time // of that daemon; zero: not known
	Fate    string    // how it ended; empty: not known
	Records map[string]Record
	// Counted are the times that the limits of supervisors count for all of their children.
	Counted map[string][]time.Time
	Slots   map[string]runtime.Observation // what is in the slots of agents
	// Forgets reports whether what the limit of a node has counted ends with its daemon.
	Forgets func(path string) bool
}

// Record is the record of a node.
type Record struct {
	supervisor.Saved
	Ended bool // that incarnation has, and its supervisor has dealt with that
	Lasts bool // the state holds for the next daemon, too
}

// recorded is the source of the nodes of a project without a daemon.
type recorded struct {
	Recorded
	*Model
}

// NewRecorded returns the model of a project without a daemon.
func NewRecorded(o Options, r Recorded) *Model {
	m := &Model{opts: o}
	m.source = recorded{r, m}
	return m
}

// stateUnknown is the state of an agent of which nothing can be told.
const stateUnknown = "unknown"

func (recorded) serving() bool { return false }

// controller returns the daemon, which has no process.
func (r recorded) controller() Controller {
	return Controller{Host: r.opts.Host, StartedAt: r.Started}
}

func (r recorded) nodes(path string) ([]Node, error) { return r.list(nil, path, r.opts.Fleet()), nil }

// list appends a node and what is below it.
func (r recorded) list(all []Node, path string, f Fleet) []Node {
	d := f.Nodes[path]
	if d == nil {
		return append(all, r.agent(path, f))
	}
	n := r.recorded(path, f)
	if path != f.RootPath {
		r.limit(&n, supervisor.Limit{}, f)
	}
	if d.Limit != (supervisor.Limit{}) && d.Limit.Scope == supervisor.ScopeSupervisor &&
		slices.ContainsFunc(d.Children, sharesLimit) {
		n.SetLimit(d.Limit, countedBy(d.Limit, r.Counted[path]))
	}
	all = append(all, n)
	for _, child := range d.Children {
		all = r.list(all, path+"/"+child.Name(), f)
	}
	return all
}

// recorded returns a node as its record has it, if there is one.
func (r recorded) recorded(path string, f Fleet) Node {
	n := Node{Path: path, State: supervisor.Stopped.String(), Reason: "no daemon is running",
		LimitMax: supervisor.Unlimited}
	r.declare(&n, f)
	if rec, ok := r.Records[path]; ok {
		n.Incarnation, n.Restarts = rec.Incarnation, rec.Restarts
		if rec.LastExit.Kind != supervisor.NoExit {
			n.setLastExit(rec.LastExit)
		}
		if rec.Lasts {
			n.State, n.Reason = journal.StateOf(rec.State, rec.Reason)
			n.StoppedByHand = journal.StoppedByHand(rec.State, rec.Reason)
			if rec.State == supervisor.Quarantined {
				r.quarantine(&n, rec.NextAt)
			}
		}
	}
	r.suspend(&n)
	return n
}

// quarantine fills in when the next daemon starts a quarantined node: its limit holds over
// the end of a daemon, unless what it has counted ends with that.
func (r recorded) quarantine(n *Node, until time.Time) {
	if !r.Forgets(n.Path) && time.Now().Before(until) {
		n.NextAt = &until
	}
	n.Reason = "its limit was reached; " + afterUp(*n)
}

// agent returns what is known of an agent: what its slot shows comes first.
func (r recorded) agent(path string, f Fleet) Node {
	n := r.recorded(path, f)
	rec, known := r.Records[path]
	r.limit(&n, f.Agents[path].Limit, f)
	s, seen := r.Slots[path]
	switch {
	case !seen && !known:
		n.Reason = "never started"
	case !seen:
	case s.Life == runtime.Alive:
		n.State, n.Reason = supervisor.Running.String(), "runs without a daemon"
		n.PID, n.StatusText = s.PID, s.Said.Status
		n.Incarnation, n.StartedAt, n.Uptime = s.Incarnation, &s.StartedAt, max(0, time.Since(s.StartedAt)).Seconds()
	case s.Life == runtime.Unknown:
		n.State, n.Reason = stateUnknown, "cannot tell whether it runs: "+s.Detail
	case rec.Ended && rec.LastExit.Kind != supervisor.NoExit && rec.Incarnation == s.Incarnation:
		// The record says why it was ended, which the slot does not know.
	case s.Incarnation >= n.Incarnation && s.Exit.Kind != supervisor.NoExit:
		n.Incarnation = s.Incarnation
		n.setLastExit(s.Exit)
	}
	return n
}

// limit fills in which limit governs a node, which may have one of its own, and how much of
// that is used up now.
func (r recorded) limit(n *Node, own supervisor.Limit, f Fleet) {
	if own == (supervisor.Limit{}) {
		above := f.Nodes[parent(n.Path)]
		switch {
		case above == nil || above.Limit == (supervisor.Limit{}):
			return
		case above.Limit.Scope == supervisor.ScopeSupervisor:
			n.LimitOf = parent(n.Path)
			return
		}
		own = above.Limit
	}
	n.SetLimit(own, countedBy(own, r.Records[n.Path].Counted))
}

// sharesLimit reports whether what a supervisor shares counts a child, which has no limit of its own.
func sharesLimit(c spec.Child) bool { return c.Agent == nil || c.Agent.Limit == (supervisor.Limit{}) }

// countedBy returns how many of the times a limit counts now.
func countedBy(l supervisor.Limit, times []time.Time) (n int) {
	for _, at := range times {
		if l.Within <= 0 || time.Since(at) < l.Within {
			n++
		}
	}
	return n
}

func (r recorded) explain(_ context.Context, x *Explanation) error {
	n := x.Node
	x.Next, x.Hint = "the next daemon starts it", "coppice up -d"
	if r.Fate != "" {
		x.Evidence = append(x.Evidence, r.Fate)
	}
	if n.Kind != kindAgent {
		return nil
	}
	if n.LastExit != "" && !(n.ExitKind == supervisor.ShutDown.String() && n.ExitError == "") {
		x.Evidence = append(x.Evidence, "its last exit: "+n.LastExit)
	}
	switch n.State {
	case supervisor.Suspended.String():
		x.Next = "it is started when it is resumed, with a daemon"
	case supervisor.Stopped.String():
		if r.Records[n.Path].Lasts {
			x.Next, x.Hint = "it stays stopped until it is started, also with the next daemon",
				"coppice up -d, then coppice start "+n.Path
		}
	case supervisor.Quarantined.String():
		x.Next, x.Hint = afterUp(n), inTurn(investigation(n), release(n, false))
	case supervisor.GivenUp.String():
		x.Next, x.Hint = "it stays down until it is reset, also with the next daemon",
			inTurn(investigation(n), release(n, false))
	case supervisor.Running.String():
		x.Next, x.Hint = "it stays stopped when it ends, as no daemon is running",
			"coppice up -d takes it over, coppice down stops it"
	}
	return nil
}

func (r recorded) output(_ context.Context, path string, lines int) ([]string, error) {
	return r.opts.Output(path, lines)
}
