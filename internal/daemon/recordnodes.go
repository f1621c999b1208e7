package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// Nodes is part of api.Records.
func (r *Records) Nodes(_ context.Context, path string) ([]api.Node, error) {
	path = r.full(path)
	if !r.fleet().has(path) {
		return nil, r.noNode(path)
	}
	return r.list(nil, path), nil
}

// list appends a node and what is below it.
func (r *Records) list(all []api.Node, path string) []api.Node {
	d := r.fleet().nodes[path]
	if d == nil {
		return append(all, r.agentNode(path))
	}
	n := r.recorded(path, supervisor.Stopped.String())
	n.Kind, n.Strategy = kindSupervisor, d.Strategy.String()
	if d.Limit != (supervisor.Limit{}) && d.Limit.Scope == supervisor.ScopeSupervisor {
		var counted []time.Time
		if self := r.selves[path]; self != nil {
			counted = self.Counted
		}
		limited(&n, d.Limit, counted)
	}
	all = append(all, n)
	for _, child := range d.Children {
		all = r.list(all, path+"/"+child.Name())
	}
	return all
}

// recorded is what the record of a node says, which is not there where there is none.
func (r *Records) recorded(path, state string) api.Node {
	n := api.Node{Path: path, State: state, Reason: "no daemon runs", Node: r.host, LimitMax: supervisor.Unlimited}
	if rec := r.records[path]; rec != nil {
		n.Incarnation, n.Restarts = rec.Incarnation, rec.Restarts
		if rec.LastExit != nil {
			n.LastExit = rec.LastExit.exit().String()
		}
		if rec.lasts() {
			n.State, n.Reason = rec.State, rec.Reason
		}
	}
	r.shownSuspended(&n)
	return n
}

// agentNode is what is known of an agent: what its slot shows comes first.
func (r *Records) agentNode(path string) api.Node {
	a := r.fleet().agents[path]
	n := r.recorded(path, supervisor.Stopped.String())
	n.Kind, n.Runtime, n.Terminal, n.NeedsInput = kindAgent, a.Runtime.String(), hasTerminal(a), r.needs(path)
	rec := r.records[path]
	limit := a.Limit
	above := r.fleet().nodes[parent(path)]
	if limit == (supervisor.Limit{}) && above != nil && above.Limit.Scope == supervisor.ScopeChild {
		limit = above.Limit
	}
	if limit != (supervisor.Limit{}) {
		var counted []time.Time
		if rec != nil {
			counted = rec.Counted
		}
		limited(&n, limit, counted)
	}
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
	case s.Incarnation >= n.Incarnation && s.Exit.Kind != supervisor.NoExit:
		n.Incarnation, n.LastExit = s.Incarnation, s.Exit.String()
	}
	return n
}

// limited says what governs a node, and how much of that is used up now.
func limited(n *api.Node, l supervisor.Limit, counted []time.Time) {
	n.LimitMax, n.Limit = l.Max, l.String()
	for _, at := range counted {
		if l.Within <= 0 || time.Since(at) < l.Within {
			n.InWindow++
		}
	}
}

// Explain is part of api.Records.
func (r *Records) Explain(ctx context.Context, path string) (api.Explanation, error) {
	nodes, err := r.Nodes(ctx, path)
	if err != nil {
		return api.Explanation{}, err
	}
	n := nodes[0]
	x := api.Explanation{
		Node: n, Rule: n.Reason, Next: "nothing, until a daemon runs", Hint: "coppice up -d",
		Evidence: []string{"no daemon runs"}, History: r.history(ctx, n.Path), Tail: []string{}, Claims: []api.Claim{},
	}
	if r.fate != "" {
		x.Evidence = append(x.Evidence, r.fate)
	}
	if n.Kind != kindAgent {
		return x, nil
	}
	x.Evidence = append(x.Evidence, fmt.Sprintf("incarnation %d, %d restarts in all", n.Incarnation, n.Restarts))
	if n.LastExit != "" {
		x.Evidence = append(x.Evidence, "the last incarnation to end ended with "+n.LastExit)
	}
	switch n.State {
	case supervisor.Suspended.String():
		x.Next = "nothing, until a daemon runs and somebody starts it"
	case supervisor.GivenUp.String():
		x.Next = "nothing, until a daemon runs and somebody resets it"
	case supervisor.Running.String():
		x.Next, x.Hint = "nothing: nobody restarts it when it ends", "coppice up -d takes it over, coppice down stops it"
	}
	x.Claims = r.claimed(ctx, n.Path)
	if tail, err := r.kept(n.Path, historyLength); err == nil && tail != nil {
		x.Tail = tail
	}
	return x, nil
}
