package controller

import (
	"cmp"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/supervisor"
)

// standing returns what the patrol makes of a node; nil if it is not in the fleet.
func (s modelSource) standing(n status.Node, now time.Time) *status.Standing {
	path := n.Path
	x := s.c.loop.Outlook(path, now)
	if x == nil {
		return nil
	}
	d, o := &x.Desired, x.Observed
	p := &status.Standing{
		Wanted: "run", Observed: reconcile.Unknown.String(), Drifted: []string{}, WaitsFor: []string{},
		Busy: s.c.loop.IsBusy(path),
	}
	switch {
	case d.Retired:
		p.Wanted, p.Why = "finish", "it is no longer in the file"
	case d.Suspended:
		p.Wanted, p.Why = "suspend", s.c.control.SuspendedBy(path)
	}
	if d, ok := s.c.drains.Of(path); ok && p.Wanted == "run" && !d.Renew {
		p.Wanted, p.Why = "finish", cmp.Or(d.Reason, "somebody has asked it to")
	}
	if x.NextPass.After(now) {
		p.NextRound = &x.NextPass
	}
	if o == nil {
		if above := parent(path); s.c.tree.Find(above) == nil { // so that no supervisor runs it
			p.Observed = reconcile.Pending.String()
			if p.Wanted == "run" {
				p.WaitsFor = append(p.WaitsFor, above)
			}
		}
		return p
	}
	p.Observed, p.Ready = o.Phase.String(), o.Ready
	if o.Phase == reconcile.Pending {
		p.WaitsFor = append(p.WaitsFor, x.Unready...)
	}
	if o.Phase == reconcile.Running && d.Hash.Sum != o.Hash.Sum {
		p.Drifted = append(p.Drifted, d.Hash.Changed(o.Hash)...)
	}
	p.Known = o.Phase == reconcile.Running && len(o.Hash.Fields) > 0
	for _, a := range x.Result.Actions {
		if a.Path == path {
			p.Action, p.Reason = a.Kind.String(), a.Reason
		}
	}
	for _, w := range x.Result.Delays {
		switch {
		case w.Path != path:
		case w.For == "":
			p.HeldUntil = &w.Until
		case !slices.Contains(p.WaitsFor, w.For):
			p.WaitsFor = append(p.WaitsFor, w.For)
		}
	}
	if n.State == supervisor.Quarantined.String() && n.NextAt != nil {
		p.HeldUntil = n.NextAt
	}
	if at, ok := s.c.health.Activity(path); ok && at.Counts {
		left := max(0, s.c.fleet().Agents[path].IdleTimeout-at.Idle).Seconds()
		p.IdleLeft = &left
	}
	return p
}
