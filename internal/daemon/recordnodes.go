package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Nodes is part of api.Records.
func (r *Records) Nodes(_ context.Context, path string) ([]api.Node, error) {
	path = r.full(path)
	if !r.fleet().has(path) {
		return nil, r.noNode(path)
	}
	nodes := r.list(nil, path)
	api.DeriveStates(nodes)
	return nodes, nil
}

// list appends a node and what is below it.
func (r *Records) list(all []api.Node, path string) []api.Node {
	d := r.fleet().nodes[path]
	if d == nil {
		return append(all, r.agentNode(path))
	}
	n := r.recorded(path, supervisor.Stopped.String())
	n.Kind, n.Strategy = kindSupervisor, d.Strategy.String()
	if path != r.rootPath() {
		n.Restart = d.Restart.String()
		r.limited(&n, supervisor.Limit{})
	}
	if d.Limit != (supervisor.Limit{}) && d.Limit.Scope == supervisor.ScopeSupervisor &&
		slices.ContainsFunc(d.Children, sharesLimit) {
		var counted []time.Time
		if self := r.selves[path]; self != nil {
			counted = self.Counted
		}
		n.SetLimit(d.Limit, countedBy(d.Limit, counted))
	}
	all = append(all, n)
	for _, child := range d.Children {
		all = r.list(all, path+"/"+child.Name())
	}
	return all
}

// recorded is what the record of a node says, which is not there where there is none.
func (r *Records) recorded(path, state string) api.Node {
	n := api.Node{Path: path, State: state, Reason: "no daemon is running", Node: r.host,
		LimitMax: supervisor.Unlimited}
	if rec := r.records[path]; rec != nil {
		n.Incarnation, n.Restarts = rec.Incarnation, rec.Restarts
		if rec.LastExit != nil {
			setLastExit(&n, rec.LastExit.exit())
		}
		if rec.lasts() {
			was := rec.saved()
			n.State, n.Reason = stateOf(was.State, was.Reason)
			n.StoppedByHand = stoppedByHand(supervisor.ChildInfo{State: was.State, Reason: was.Reason})
			if was.State == supervisor.Quarantined {
				r.shownQuarantine(&n, was.NextAt)
			}
		}
	}
	r.shownSuspended(&n)
	return n
}

// shownQuarantine says when the next daemon starts a quarantined node: its limit holds
// over the end of a daemon, unless what it has counted ends with that.
func (r *Records) shownQuarantine(n *api.Node, until time.Time) {
	if !r.fleet().forgets(n.Path) && time.Now().Before(until) {
		n.NextAt = &until
	}
	n.Reason = "its limit was reached; " + afterUp(*n)
}

// agentNode is what is known of an agent: what its slot shows comes first.
func (r *Records) agentNode(path string) api.Node {
	a := r.fleet().agents[path]
	n := r.recorded(path, supervisor.Stopped.String())
	n.Kind, n.Runtime, n.Terminal, n.Restart, n.NeedsInput = kindAgent, a.Runtime.String(), hasTerminal(a),
		a.Restart.String(), r.needs(path)
	n.User, n.NoNewPrivileges = a.User, a.NoNewPrivileges
	rec := r.records[path]
	r.limited(&n, a.Limit)
	s, seen := r.seen[path]
	switch {
	case !seen && rec == nil:
		n.Reason = "never started"
	case !seen:
	case s.Life == runtime.Alive:
		n.State, n.Reason = supervisor.Running.String(), "runs without a daemon"
		n.PID, n.StatusText = s.PID, s.Said.Status
		n.Incarnation, n.StartedAt, n.Uptime = s.Incarnation, &s.StartedAt, max(0, time.Since(s.StartedAt)).Seconds()
	case s.Life == runtime.Unknown:
		n.State, n.Reason = stateUnknown, "cannot tell whether it runs: "+s.Detail
	case rec != nil && rec.Ended && rec.LastExit != nil && rec.Incarnation == s.Incarnation:
		// The record says why it was ended, which the slot does not know.
	case s.Incarnation >= n.Incarnation && s.Exit.Kind != supervisor.NoExit:
		n.Incarnation = s.Incarnation
		setLastExit(&n, s.Exit)
	}
	return n
}

// limited says which limit governs a node, which may have one of its own, and how
// much of that is used up now.
func (r *Records) limited(n *api.Node, own supervisor.Limit) {
	if own == (supervisor.Limit{}) {
		above := r.fleet().nodes[parent(n.Path)]
		switch {
		case above == nil || above.Limit == (supervisor.Limit{}):
			return
		case above.Limit.Scope == supervisor.ScopeSupervisor:
			n.LimitOf = parent(n.Path)
			return
		}
		own = above.Limit
	}
	counted := 0
	if rec := r.records[n.Path]; rec != nil {
		counted = countedBy(own, rec.Counted)
	}
	n.SetLimit(own, counted)
}

// sharesLimit reports whether what a supervisor shares counts a child, which has no limit of its own.
func sharesLimit(c spec.Child) bool { return c.Agent == nil || c.Agent.Limit == (supervisor.Limit{}) }

// countedBy is how many of the times a limit counts now.
func countedBy(l supervisor.Limit, times []time.Time) (n int) {
	for _, at := range times {
		if l.Within <= 0 || time.Since(at) < l.Within {
			n++
		}
	}
	return n
}

// Explain is part of api.Records.
func (r *Records) Explain(ctx context.Context, path string) (api.Explanation, error) {
	nodes, err := r.Nodes(ctx, path)
	if err != nil {
		return api.Explanation{}, err
	}
	n := nodes[0]
	x := api.Explanation{
		Node: n, Rule: n.Reason, Next: "the next daemon starts it", Hint: "coppice up -d",
		Evidence: []string{}, History: r.history(ctx, n.Path), Tail: []string{}, Claims: []api.Claim{},
	}
	if r.fate != "" {
		x.Evidence = append(x.Evidence, r.fate)
	}
	if n.Kind != kindAgent {
		return x, nil
	}
	if n.LastExit != "" && n.LastExit != (supervisor.Exit{Kind: supervisor.ShutDown}).String() {
		x.Evidence = append(x.Evidence, "its last exit: "+n.LastExit)
	}
	switch n.State {
	case supervisor.Suspended.String():
		x.Next = "it is started when it is resumed, with a daemon"
	case supervisor.Stopped.String():
		if rec := r.records[n.Path]; rec != nil && rec.lasts() {
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
	x.Claims = r.claims.List(ctx, n.Path)
	if tail, err := r.kept(n.Path, historyLength); err == nil && tail != nil {
		x.Tail = tail
	}
	return x, nil
}
