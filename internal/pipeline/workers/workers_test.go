package workers

import (
	"maps"
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/config"
)

// A worker is told which agents and pools are workers for the same tasks and branch, and no others.
func TestAssignment(t *testing.T) {
	tree, err := config.Parse("/p/coppice.toml", []byte(`
[project]
name = "p"
[[agent]]
name = "coder"
command = "claude -p"
[agent.pool]
min = 0
max = 3
[agent.pipeline]
test = "make test"
[[agent]]
name = "codex"
command = "codex exec -"
[agent.pipeline]
tasks = "coder"
test = "make test"
[[agent]]
name = "other"
command = "codex exec -"
[agent.pipeline]
test = "make test"
[[agent]]
name = "elsewhere"
command = "codex exec -"
[agent.pipeline]
tasks = "coder"
branch = "next"
test = "make test"
[[agent]]
name = "repository"
command = "codex exec -"
[agent.pipeline]
tasks = "coder"
repository = "/q"
test = "make test"
[[agent]]
name = "plain"
command = "sleep 1000"
[agent.pool]
min = 1
`))
	if err != nil {
		t.Fatal(err)
	}
	tree = tree.Layout(map[string][]string{"p/coder": {"coder-1"}, "p/plain": {"plain-1"}})
	for path, want := range map[string][]string{
		"p/coder/coder-1": {"p/coder", "p/codex"},
		"p/codex":         {"p/coder", "p/codex"},
		"p/other":         {"p/other"},
		"p/elsewhere":     {"p/elsewhere"},
		"p/repository":    {"p/repository"},
	} {
		mine, ok := assignment(tree, path)
		if !ok || !slices.Equal(mine.Workers, want) || len(mine.Settings.Stages) == 0 {
			t.Errorf("%s: %v, %+v", path, ok, mine)
		}
	}
	// The pool has no instance at the moment, and its workers have made changes before.
	if mine, _ := assignment(tree.Layout(nil), "p/codex"); !slices.Equal(mine.Workers, []string{"p/coder", "p/codex"}) {
		t.Errorf("%v", mine.Workers)
	}
	for _, path := range []string{"p/plain/plain-1", "p/none"} {
		if _, ok := assignment(tree, path); ok {
			t.Errorf("%s works in a pipeline", path)
		}
	}
	pools := map[string][]string{}
	for path, c := range tree.All() {
		if c.Agent != nil {
			pools[path] = c.Agent.TaskPools(path)
		}
	}
	for path, want := range map[string][]string{
		"p/coder/coder-1": {"coder", "coder-1", "coder/coder-1"}, "p/codex": {"coder"}, "p/other": {"other"},
		"p/plain/plain-1": {"plain", "plain-1", "plain/plain-1"},
	} {
		if !slices.Equal(pools[path], want) {
			t.Errorf("%s takes tasks of %v, expected %v", path, pools[path], want)
		}
	}
	if len(pools) != 6 {
		t.Errorf("%v", slices.Collect(maps.Keys(pools)))
	}
}
