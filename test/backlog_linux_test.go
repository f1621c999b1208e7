package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/task"
)

// The backlog in docs/tasks.md is imported, once; of a wrong one nothing is.
func TestImportBacklog(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "tasks.md"))
	if err != nil {
		t.Fatal(err)
	}
	backlog := block(t, string(page), "yaml")
	f := newFleet(t, agentTOML("a", "exec sleep 1000"))
	f.up()
	write(t, filepath.Join(f.dir, "wrong.yaml"), backlog+"- id: gl-3\n  objective: x\n  status: done\n")
	f.wantFailure(exitUsage, []string{"task", "import", "wrong.yaml"}, "nothing was imported",
		"wrong.yaml:14:3: ", `"done"`)
	if out := f.do("task", "ls", "--all", "--json"); out != "[]\n" {
		t.Errorf("a wrong file has left %s", out)
	}
	write(t, filepath.Join(f.dir, "backlog.yaml"), backlog)
	f.wantFailure(exitUsage, []string{"task", "import", "backlog.yaml", "--skip-bad"}, "for beads")
	if out := f.do("task", "import", "backlog.yaml", "--check"); out != "2 tasks, all valid\n" {
		t.Error(out)
	}
	if out := f.do("task", "import", "backlog.yaml"); out != "2 tasks added, 0 changed, 0 unchanged\n" {
		t.Error(out)
	}
	if out := f.do("task", "import", "backlog.yaml"); out != "0 tasks added, 0 changed, 2 unchanged\n" {
		t.Error(out)
	}
	one := f.detail("gl-1")
	if one.Task.Status != task.Open || one.Task.Priority != 2 || len(one.Comments) != 1 ||
		!strings.Contains(one.Comments[0].Text, "last_error: TestLogin fails") {
		t.Errorf("%+v", one)
	}
	if two := f.task("gl-2"); two.Ready || !slices.Equal(two.WaitsFor, []string{"gl-1"}) {
		t.Errorf("%+v", two)
	}
	f.do("task", "close", "gl-1", "--outcome", "cancelled")
	if two := f.task("gl-2"); two.Ready || len(two.Stuck) != 1 {
		t.Errorf("it began after a cancelled one: %+v", two)
	}
	if out := f.do("task", "export"); !strings.Contains(out, `"glitchlab":{`) {
		t.Error(out)
	}
}
