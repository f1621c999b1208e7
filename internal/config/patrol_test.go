package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestDaemon(t *testing.T) {
	of := func(change func(*spec.Patrol)) spec.Patrol {
		p := spec.DefaultPatrol()
		change(&p)
		return p
	}
	for _, tt := range []struct {
		name, text string
		want       spec.Patrol
	}{
		{"nothing", "", spec.DefaultPatrol()},
		{"empty", "[daemon]\n", of(func(p *spec.Patrol) { p.Kept = true })},
		{"all", `
[daemon]
patrol_interval = "1d"
max_restarts = 2
restart_window = "1d12h"
shutdown_timeout = "0s"
drift_drain_timeout = "10m"
max_parallel_starts = 1
gc_interval = "5m"
ttl = "7d"
`, spec.Patrol{
			Interval: 24 * time.Hour, Limit: supervisor.Quarantining(2, 36*time.Hour), Kept: true,
			DriftDrainTimeout: 10 * time.Minute, Starts: 1, GCInterval: 5 * time.Minute, TTL: 7 * 24 * time.Hour,
		}},
		{"as the seed writes it", "[daemon]\nwisp_gc_interval = \"5m\"\nwisp_ttl = \"24h\"\n", of(func(p *spec.Patrol) { p.Kept, p.GCInterval, p.TTL = true, 5*time.Minute, 24*time.Hour })},
		{"no limit", "[daemon]\nmax_restarts = 0\n", of(func(p *spec.Patrol) { p.Kept, p.Limit.Max = true, supervisor.Unlimited })},
		{"no limit in a word", "[daemon]\nmax_restarts = \"unlimited\"\n", of(func(p *spec.Patrol) { p.Kept, p.Limit.Max = true, supervisor.Unlimited })},
		{"another states the limit", "[daemon]\n[supervision]\nmax_restarts = 3\n", spec.DefaultPatrol()},
		{"both do", "[daemon]\nrestart_window = \"2h\"\n[supervision]\nmax_restarts = 3\n", of(func(p *spec.Patrol) { p.Kept, p.Limit.Within = true, 2*time.Hour })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Parse("f.toml", []byte(base+tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, tree.Patrol); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestKept: whose limit is that of the patrol.
func TestKept(t *testing.T) {
	tree, err := Parse("f.toml", []byte(base+`
[[agent]]
name = "own"
command = "x"
max_restarts = 1
[[agent]]
name = "named"
command = "x"
[[supervisor]]
name = "s"
children = ["named"]
[daemon]
max_restarts = 2
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]supervisor.Limit{"a": supervisor.Quarantining(2, time.Hour), "own": supervisor.Quarantining(1, time.Hour), "named": {}}
	got := map[string]supervisor.Limit{}
	for _, c := range tree.All() {
		if c.Agent != nil {
			got[c.Agent.Name] = c.Agent.Limit
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if tree.Root.Limit != supervisor.Escalating(5, time.Minute) {
		t.Errorf("the root has %v", tree.Root.Limit)
	}
}

func TestSuspended(t *testing.T) {
	tree, err := Parse("f.toml", []byte("[project]\nsuspended = true\n"+base+"suspended = true\n[[supervisor]]\nname = \"s\"\nchildren = [\"a\"]\nsuspended = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := tree.Root.Children[0].Node
	if !tree.Root.Suspended || !s.Suspended || !s.Children[0].Agent.Suspended {
		t.Errorf("project %v, supervisor %v, agent %v; want all to be suspended", tree.Root.Suspended, s.Suspended, s.Children[0].Agent.Suspended)
	}
}
