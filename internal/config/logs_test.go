package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/spec"
)

// [logs] applies to all agents, and [agent.logs] to one.
func TestLogs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "coppice.toml")
	file := `[logs]
max_size = "50MB"
keep = 5
[[agent]]
name = "a"
command = ["sleep", "1000"]
[[agent]]
name = "b"
command = ["sleep", "1000"]
logs = { keep = 1 }
`
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	var got []spec.Logs
	for _, c := range tree.Root.Children {
		got = append(got, c.Agent.Logs.Or(tree.Logs))
	}
	if want := []spec.Logs{{MaxSize: 50_000_000, Keep: 5}, {MaxSize: 50_000_000, Keep: 1}}; !cmp.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
