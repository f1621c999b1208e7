package pool

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/internal/reconcile"
)

// planned is a Reconciler with a prepared plan.
type planned struct {
	res               reconcile.Result
	scanned, enqueued int
}

func (p *planned) Scan(context.Context)   { p.scanned++ }
func (p *planned) Plan() reconcile.Result { return p.res }
func (p *planned) Enqueue()               { p.enqueued++ }

// A patrol returns the plan that follows a scan, and requests a pass unless it is a dry run.
func TestPatrol(t *testing.T) {
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &planned{res: reconcile.Result{
		Actions: []reconcile.Action{{
			Kind: reconcile.Renew, Path: "t/a", Cause: reconcile.Drifted, Fields: []string{"dir"}, Reason: "drifted: dir",
		}},
		Delays: []reconcile.Delay{{Path: "t/b", For: "t/a"}, {Path: "t/c", Until: until, Cause: reconcile.Drifted}},
	}}
	stopping := make(chan struct{})
	p := Patroller{Pools: NewManager(Options{Stopping: stopping}), Reconciler: r}
	people := apitest.Serve(t, p.Register).People()
	want := Pass{
		Actions: []PassAction{{Action: "renew", Path: "t/a", Cause: "drifted", Fields: []string{"dir"},
			Reason: "drifted: dir"}},
		Delays: []PassDelay{{Path: "t/b", For: "t/a"}, {Path: "t/c", Until: &until, Cause: "drifted"}},
		Pools:  []At{},
	}
	for enqueued, dry := range []bool{true, false} {
		got, err := Patrol.Call(t.Context(), people, PatrolRequest{DryRun: dry})
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Pass{}, PassAction{}, PassDelay{})); err != nil ||
			diff != "" {
			t.Errorf("dry %v: %v (-want +got)\n%s", dry, err, diff)
		}
		if r.scanned != enqueued+1 || r.enqueued != enqueued {
			t.Errorf("dry %v: %d scans, %d passes requested", dry, r.scanned, r.enqueued)
		}
	}
	close(stopping)
	if _, err := Patrol.Call(t.Context(), people, PatrolRequest{}); !errors.Is(err, api.ErrStopping) {
		t.Errorf("while the daemon stops: %v", err)
	}
}
