package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/leases"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// An agent does not leave its node for one whose lease has ended, which is no change of the registry.
func TestNoMoveToALostNode(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			here, there := newStage(), newStage()
			var known []registry.Node
			var last store.Lease
			for _, name := range []string{"a", "b"} {
				l, err := db.Acquire(t.Context(), registry.LeaseOf(name), time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				known = append(known, registry.Node{Name: name, Epoch: l.Fence().Epoch,
					Info: registry.Info{Labels: map[string]string{"on": name}}})
				last = l
			}
			ended := leases.New(db, func() ([]registry.Node, <-chan struct{}) { return known, nil })
			places, err := placing.Open(t.Context(), placing.Options{
				Store: db, Node: "a", Epoch: func() uint64 { return known[0].Epoch }, Logger: quietly,
				Nodes: func() []registry.Node { return known }, Leases: ended,
				Runtime: func(string, string) runtime.Runtime { return there }, Lost: func(string, uint64) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			tree := func(node string) *spec.Tree {
				return edited(t, treeOf(t, "x"), "x", func(a *spec.Agent) { a.Placement.Labels = map[string]string{"on": node} })
			}
			c, err := Open(t.Context(), Options{
				Tree: tree("a"), Store: db, Runtimes: []runtime.Runtime{placing.New(here, places)}, Places: places,
				Logger: quietly,
			})
			if err != nil {
				t.Fatal(err)
			}
			p := &play{c, t, here, db}
			defer p.close()
			time.Sleep(time.Minute)
			if lost {
				if err := last.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			ended.Look(t.Context(), []leases.Lease{leases.Of(known[1])})
			if _, err := p.apply(t.Context(), tree("b"), fleet.Config{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			onA, onB := "t/x 1", ""
			if !lost {
				onA, onB = "", "t/x 2"
			}
			if here.cast() != onA || there.cast() != onB {
				t.Errorf("node b is lost: %v: on a runs %q, on b %q", lost, here.cast(), there.cast())
			}
		})
	}
}
