package reconcile

import (
	"context"
	"fmt"
	"path"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// SavedState reads from the store the states of the nodes that are new in a fleet: an earlier
// fleet may have had them.
func (a *Applier) SavedState(ctx context.Context, f *fleet.Fleet) (*agent.SavedState, error) {
	p := &agent.SavedState{
		Orderly: true, Records: make(map[string]*agent.Record), Selves: make(map[string]*agent.SelfRecord),
	}
	old := a.Fleet()
	var stored []store.Record
	for _, at := range f.Order {
		if old.Has(at) || !old.Has(path.Dir(at)) { // what is below a new one is read with it
			continue
		}
		records, _, err := a.Store.Snapshot(ctx, agent.RecordPrefix+"/"+store.PathKey(at))
		if err != nil {
			return nil, fmt.Errorf("reading what is known of %s: %w", at, err)
		}
		stored = append(stored, records...)
	}
	records, selves, _ := agent.ReadRecords(stored)
	earlier := func(at string) bool { // only an earlier daemon knows it
		_, removed := a.lastState(at)
		return !removed && !a.Known(at)
	}
	p.Forgets = func(at string) bool { return earlier(at) && f.Forgets(at) }
	p.ForgetsSelf = func(at string) bool { return earlier(at) && f.ForgetsOwn(at) }
	for at, r := range records {
		if f.Has(at) && !old.Has(at) {
			r.Incarnation = max(r.Incarnation, a.Last(at)) // the store may be behind
			if !r.IsKept() {
				r.State, r.Reason = supervisor.Waiting.String(), ""
			}
			p.Records[at], p.Selves[at] = r, selves[at]
		}
	}
	for at := range f.Agents {
		if old.Has(at) {
			continue
		}
		if _, ok := a.lastState(at); ok {
			p.Records[at] = a.LastRecord(at, 0)
		}
		if n := a.Last(at); n > 0 { // the store may not have it at all
			p.Of(at).Incarnation = max(p.Of(at).Incarnation, n)
		}
	}
	return p, nil
}
