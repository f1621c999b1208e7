package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Agents and the instances of pools have the placement that the file gives them, also by a patch.
func TestPlacement(t *testing.T) {
	tree, err := Parse("f.toml", []byte(`
[[agent]]
name = "here"
command = "x"
node = "a.example"

[[agent]]
name = "gpu"
command = "x"
labels = { "topology/zone" = "eu", gpu = "" }

[[agent]]
name = "any"
command = "x"
labels = {}

[[agent]]
name = "worker"
command = "x"
labels = { zone = "eu" }
spread = "rack"
max_per_node = 1

[agent.pool]
max = 4

[[agent]]
name = "pinned"
command = "x"
node = "b"
pool = { max = 4 }

[[patches.agent]]
name = "gpu"
labels_remove = ["gpu"]
labels.arch = "arm64"

[[patches.agent]]
name = "worker"
max_per_node = 3
`))
	if err != nil {
		t.Fatal(err)
	}
	worker := spec.Placement{Labels: map[string]string{"zone": "eu"}, Spread: "rack", MaxPerNode: 3}
	want := map[string]spec.Placement{
		"here":     {Node: "a.example"},
		"gpu":      {Labels: map[string]string{"topology/zone": "eu", "arch": "arm64"}},
		"any":      {},
		"worker-1": worker, "worker-2": worker, "pinned-1": {Node: "b"},
	}
	tree = tree.Layout(map[string][]string{
		tree.Root.Name + "/worker": {"worker-1", "worker-2"}, tree.Root.Name + "/pinned": {"pinned-1"},
	})
	got := map[string]spec.Placement{}
	for _, c := range tree.All() {
		if c.Agent != nil {
			got[c.Agent.Name] = c.Agent.Placement
		}
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(spec.Placement{})); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
