package daemon

import (
	"cmp"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/patrol"
	"github.com/coppice-dev/coppice/supervisor"
)

// outlook is what a round would see of a node and do about it; nil if the node
// is not in the fleet.
func (r *rounds) outlook(path string, now time.Time) (d *patrol.Desired, o *patrol.Observed, unready []string,
	res patrol.Result, next time.Time) {
	r.c.applying.Lock()
	defer r.c.applying.Unlock()
	f := r.c.fleet()
	at := slices.Index(f.order, path)
	if at < 0 {
		return nil, nil, nil, res, next
	}
	desired, observed := r.c.desired(f), r.c.observed(f)
	d, o = &desired[at], observed[path]
	for _, need := range d.Needs {
		if seen := observed[need]; seen == nil || !seen.Ready {
			unready = append(unready, need)
		}
	}
	r.mu.Lock()
	next = r.due
	r.mu.Unlock()
	return d, o, unready, patrol.Plan(desired, observed, patrol.Trackers{}, now), next
}

// explainPatrol adds what the patrol makes of a node.
func (c *Controller) explainPatrol(x *api.Explanation) {
	now, path := time.Now(), x.Node.Path
	d, o, unready, res, next := c.patrols.outlook(path, now)
	if d == nil {
		return
	}
	p := &api.Standing{Wanted: "run", Observed: patrol.Unknown.String(), Drifted: []string{}, WaitsFor: []string{},
		Busy: c.patrols.isBusy(path)}
	switch {
	case d.Retired:
		p.Wanted, p.Why = "finish", "it is no longer in the file"
	case d.Suspended:
		p.Wanted, p.Why = "suspend", c.suspendedBy(c.fleet(), path)
	}
	if d, ok := c.drains.Of(path); ok && p.Wanted == "run" && !d.Renew {
		p.Wanted, p.Why = "finish", cmp.Or(d.Reason, "somebody has asked it to")
	}
	if next.After(now) {
		p.NextRound = &next
	}
	x.Patrol = p
	defer func() { addStanding(x, p, now) }()
	if o == nil {
		if above := parent(path); c.find(above) == nil { // nobody runs it, then
			p.Observed = patrol.Down.String()
			if p.Wanted == "run" {
				p.WaitsFor = append(p.WaitsFor, above)
			}
		}
		return
	}
	p.Observed, p.Ready = o.Life.String(), o.Ready
	if o.Life == patrol.Down {
		p.WaitsFor = append(p.WaitsFor, unready...)
	}
	if o.Life == patrol.Running && d.Hash.Sum != o.Hash.Sum {
		p.Drifted = append(p.Drifted, d.Hash.Changed(o.Hash)...)
	}
	p.Known = o.Life == patrol.Running && len(o.Hash.Fields) > 0
	for _, a := range res.Actions {
		if a.Path == path {
			p.Action, p.Reason = a.Kind.String(), a.Reason
		}
	}
	for _, w := range res.Delays {
		switch {
		case w.Path != path:
		case w.For == "":
			p.HeldUntil = &w.Until
		case !slices.Contains(p.WaitsFor, w.For):
			p.WaitsFor = append(p.WaitsFor, w.For)
		}
	}
	if x.Node.State == supervisor.Quarantined.String() && x.Node.NextAt != nil {
		p.HeldUntil = x.Node.NextAt
	}
	if at, ok := c.health.Activity(path); ok && at.Counts {
		left := max(0, c.fleet().agents[path].IdleTimeout-at.Idle).Seconds()
		p.IdleLeft = &left
	}
}
