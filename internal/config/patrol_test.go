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
		{"empty", "[daemon]\n", spec.DefaultPatrol()},
		{"all", `
[daemon]
patrol_interval = "1d"
max_restarts = 2
restart_window = "1d12h"
shutdown_timeout = "0s"
drift_drain_timeout = "10m"
max_parallel_starts = 1
agents_per_shim = 256
program_memory = "64MiB"
max_claims = 5
max_failed_tasks = 7
failed_tasks_window = "1h"
gc_interval = "5m"
ttl = "7d"
`, spec.Patrol{
			Interval: 24 * time.Hour, Limit: supervisor.Quarantining(2, 36*time.Hour),
			DriftDrainTimeout: 10 * time.Minute, Starts: 1, PerShim: 256, ProgramMemory: 64 << 20,
			MaxClaims: 5, MaxFailedTasks: 7, FailedTasksWindow: time.Hour,
			GCInterval: 5 * time.Minute, TTL: 7 * 24 * time.Hour,
		}},
		{"as Gas City writes it", "[daemon]\nwisp_gc_interval = \"5m\"\nwisp_ttl = \"24h\"\n", of(func(p *spec.Patrol) { p.GCInterval, p.TTL = 5*time.Minute, 24*time.Hour })},
		{"no limit", "[daemon]\nmax_restarts = 0\n", of(func(p *spec.Patrol) { p.Limit.Max = supervisor.Unlimited })},
		{"no limit in a word", "[daemon]\nmax_restarts = \"unlimited\"\n", of(func(p *spec.Patrol) { p.Limit.Max = supervisor.Unlimited })},
		{"a window", "[daemon]\nrestart_window = \"2h\"\n", of(func(p *spec.Patrol) { p.Limit.Within = 2 * time.Hour })},
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

// TestDefaultLimits checks the default limits and backoffs of agents, and the limit of the root.
func TestDefaultLimits(t *testing.T) {
	const fleet = `
[[agent]]
name = "own"
command = "x"
max_restarts = 1
[[agent]]
name = "free"
command = "x"
[[agent]]
name = "inside"
command = "x"
[[agent]]
name = "strict"
command = "x"
backoff = "none"
[[supervisor]]
name = "plain"
children = ["inside"]
[[supervisor]]
name = "stated"
children = ["strict"]
max_restarts = 2
[project]
name = "x"
`
	own, quarantine, none := supervisor.Quarantining(1, time.Hour), supervisor.Quarantining(20, time.Hour), supervisor.Limit{}
	for _, tt := range []struct {
		name, text         string
		free, inside, root supervisor.Limit
		plain              supervisor.Limit
	}{
		{"nothing", "", quarantine, quarantine, quarantine, supervisor.Escalating(5, time.Minute)},
		{"empty tables", "[daemon]\n[supervision]\n", quarantine, quarantine, quarantine, supervisor.Escalating(5, time.Minute)},
		{
			"the daemon's", "[daemon]\nmax_restarts = 3\n",
			supervisor.Quarantining(3, time.Hour), supervisor.Quarantining(3, time.Hour), supervisor.Quarantining(3, time.Hour), supervisor.Escalating(5, time.Minute),
		},
		{
			"numbers of supervisors", "[supervision]\nmax_restarts = 3\nwithin_seconds = 9\n",
			none, none, supervisor.Quarantining(3, 9*time.Second), supervisor.Escalating(3, 9*time.Second),
		},
		{"escalate", "[supervision]\non_limit = \"escalate\"\n", none, none, supervisor.Escalating(5, time.Minute), supervisor.Escalating(5, time.Minute)},
		{"pause", "[supervision]\non_limit = \"pause\"\n", none, none, supervisor.Pausing(3, 5*time.Minute), supervisor.Pausing(3, 5*time.Minute)},
		{
			"both", "[daemon]\nmax_restarts = 3\n[supervision]\non_limit = \"escalate\"\n",
			supervisor.Quarantining(3, time.Hour), none, supervisor.Escalating(5, time.Minute), supervisor.Escalating(5, time.Minute),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Parse("f.toml", []byte(tt.text+fleet))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]supervisor.Limit{
				"x": tt.root, "x/own": own, "x/free": tt.free, "x/plain/inside": tt.inside, "x/plain": tt.plain, "x/stated/strict": none,
			}
			got := map[string]supervisor.Limit{"x": tree.Root.Limit}
			for path, c := range tree.All() {
				if c.Node == nil {
					got[path] = c.Agent.Limit
				} else if path == "x/plain" {
					got[path] = c.Node.Limit
				}
				backoff := spec.DefaultBackoff()
				if path == "x/stated/strict" {
					backoff = supervisor.Backoff{}
				}
				if c.Node == nil && c.Agent.Backoff != backoff || c.Node != nil && c.Node.Backoff != backoff {
					t.Errorf("the backoff of %s is not %+v", path, backoff)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestBackoffDefaults checks the defaults of the keys of [agent.backoff].
func TestBackoffDefaults(t *testing.T) {
	for text, want := range map[string]supervisor.Backoff{
		`backoff = "exponential"`:                     {Kind: supervisor.Exponential, Cap: time.Minute, Jitter: true},
		`backoff = {}`:                                {Kind: supervisor.Exponential, Cap: time.Minute, Jitter: true},
		`backoff = "fixed"`:                           {Kind: supervisor.Fixed, Cap: time.Minute},
		`backoff = "none"`:                            {},
		`backoff = { kind = "fixed", base = "10m" }`:  {Kind: supervisor.Fixed, Base: 10 * time.Minute, Cap: 10 * time.Minute},
		`backoff = { jitter = false, cap = "5m" }`:    {Kind: supervisor.Exponential, Cap: 5 * time.Minute},
		`backoff = { kind = "linear", jitter = true}`: {Kind: supervisor.Linear, Cap: time.Minute, Jitter: true},
	} {
		tree, err := Parse("f.toml", []byte(base+text+"\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := tree.Root.Children[0].Agent.Backoff; got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
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
