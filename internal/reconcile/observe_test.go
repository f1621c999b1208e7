package reconcile

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
)

func TestComputeReadiness(t *testing.T) {
	// The supervisor t/s has t/s/a and then t/s/b.
	f := &fleet.Fleet{
		Order: []string{"t/s", "t/s/a", "t/s/b"},
		Nodes: map[string]*spec.Node{"t": {}, "t/s": {}},
		After: map[string]string{"t/s/b": "t/s/a"},
	}
	type state struct {
		phase          Phase
		ready, settled bool
	}
	running, starting, down := state{Running, true, true}, state{phase: Managed}, state{phase: Pending}
	tests := map[string]struct {
		a, b      state // with the wanted settled
		suspended string
		ready     bool // the supervisor
		settled   bool
	}{
		"all run":                     {a: running, b: running, ready: true, settled: true},
		"one starts":                  {a: running, b: starting},
		"none runs":                   {a: down, b: down},
		"completed":                   {a: running, b: state{Completed, true, true}, ready: true, settled: true},
		"failed for good":             {a: running, b: state{Completed, false, true}, settled: true},
		"suspended":                   {a: running, b: state{Completed, false, true}, suspended: "t/s/b", ready: true, settled: true},
		"suspended after one to come": {a: starting, b: state{Completed, false, false}, suspended: "t/s/b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			all := map[string]*Observed{
				"t/s":   {Phase: Running, Ready: true},
				"t/s/a": {Phase: tt.a.phase, Ready: tt.a.ready},
				"t/s/b": {Phase: tt.b.phase, Ready: tt.b.ready},
			}
			r := &Observer{Suspended: func(path string) bool { return path == tt.suspended }}
			r.computeReadiness(f, all)
			if s := all["t/s"]; s.Ready != tt.ready || s.Settled != tt.settled {
				t.Errorf("supervisor: ready %v, settled %v; want %v, %v", s.Ready, s.Settled, tt.ready, tt.settled)
			}
			if a, b := all["t/s/a"].Settled, all["t/s/b"].Settled; a != tt.a.settled || b != tt.b.settled {
				t.Errorf("settled: a %v, b %v; want %v, %v", a, b, tt.a.settled, tt.b.settled)
			}
		})
	}
}
