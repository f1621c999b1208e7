package daemon

import (
	"context"
	"fmt"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// fleet returns the desired state.
func (c *Controller) fleet() *fleet.Fleet { return c.wanted.Load() }

// building says how supervisor specifications are made. earlier may be nil.
func (c *Controller) building(earlier *fleet.Fleet,
	saved func(string) (*supervisor.Saved, *supervisor.SavedSelf)) fleet.Building {
	return fleet.Building{
		Start: c.startOf, Saved: saved, Suspended: !c.project.begun().IsZero(), Once: c.opts.Once, Earlier: earlier,
	}
}

// pastOf reads what the store knows of the nodes that are new in a fleet. They may
// have been in an earlier one.
func (c *Controller) pastOf(ctx context.Context, f *fleet.Fleet) (*agent.SavedState, error) {
	p := &agent.SavedState{
		Orderly: true, Records: make(map[string]*agent.Record), Selves: make(map[string]*agent.SelfRecord),
	}
	old := c.fleet()
	var stored []store.Record
	for _, path := range f.Order {
		if old.Has(path) || !old.Has(parent(path)) { // what is below a new one is read with it
			continue
		}
		records, _, err := c.opts.Store.Snapshot(ctx, agent.RecordPrefix+"/"+store.PathKey(path))
		if err != nil {
			return nil, fmt.Errorf("reading what is known of %s: %w", path, err)
		}
		stored = append(stored, records...)
	}
	records, selves, _ := agent.ReadRecords(stored)
	before := func(path string) bool { // nothing is known of it but from an earlier daemon
		c.mu.Lock()
		_, gone := c.gone[path]
		c.mu.Unlock()
		_, told := c.journal.of(path)
		return !gone && !told
	}
	p.Forgets = func(path string) bool { return before(path) && f.Forgets(path) }
	p.ForgetsSelf = func(path string) bool { return before(path) && f.ForgetsOwn(path) }
	for path, r := range records {
		if f.Has(path) && !old.Has(path) {
			r.Incarnation = max(r.Incarnation, c.last(path)) // the store may be behind
			if !r.IsKept() {
				r.State, r.Reason = supervisor.Waiting.String(), ""
			}
			p.Records[path], p.Selves[path] = r, selves[path]
		}
	}
	for path := range f.Agents {
		if old.Has(path) {
			continue
		}
		c.mu.Lock()
		_, ok := c.gone[path]
		c.mu.Unlock()
		if ok {
			p.Records[path] = c.lastOf(path, 0)
		}
		if n := c.last(path); n > 0 { // or not have heard of it at all
			p.Of(path).Incarnation = max(p.Of(path).Incarnation, n)
		}
	}
	return p, nil
}
