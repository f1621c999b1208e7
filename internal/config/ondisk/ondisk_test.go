package ondisk

import (
	"os"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Settings that the system does not support are reported at their key.
func TestPrivilegesOfOtherSystems(t *testing.T) {
	for system, want := range map[string]int{"linux": 0, "darwin": 1, "freebsd": 1} {
		c := check{agent: &spec.Agent{NoNewPrivileges: true}, decl: 3}
		c.privileges(system)
		if len(c.problems) != want {
			t.Errorf("%s: %v", system, c.problems)
			continue
		}
		for _, p := range c.problems {
			if p.Decl != 3 || p.Path[0] != "no_new_privileges" || p.Hint == "" {
				t.Errorf("%s: %+v", system, p)
			}
		}
	}
}

// Nothing starts where the kernel cannot enforce the limits, or a path is missing.
func TestWritePathsThatCannotBeHeld(t *testing.T) {
	dir := t.TempDir()
	a := &spec.Agent{ReadWritePaths: []string{dir}, ReadOnlyPaths: []string{dir + "/none"}}
	for _, c := range []struct {
		supported error
		key, want string
	}{
		{landlock.ErrUnsupported, "read_write_paths", "where nothing can enforce it: " +
			landlock.ErrUnsupported.Error()},
		{nil, "read_only_paths", "read_only_paths: " + dir + "/none: file does not exist"},
	} {
		f := check{agent: a, decl: 3}
		f.paths(func() error { return c.supported })
		if len(f.problems) != 1 || f.problems[0].Path[0] != c.key || !strings.Contains(f.problems[0].Message, c.want) {
			t.Errorf("%v: %+v", c.supported, f.problems)
		}
		// Those of a pipeline limit its stages.
		stages := &pipeline.Settings{Writable: a.ReadWritePaths, ReadOnly: a.ReadOnlyPaths}
		f = check{agent: &spec.Agent{Pipeline: stages}}
		f.paths(func() error { return c.supported })
		if len(f.problems) != 1 || f.problems[0].Path[0] != c.key || !strings.Contains(f.problems[0].Message, c.want) {
			t.Errorf("pipeline: %v: %+v", c.supported, f.problems)
		}
	}
	if err := os.Mkdir(dir+"/none", 0o755); err != nil {
		t.Fatal(err)
	}
	f := check{agent: a}
	f.paths(func() error { return nil })
	f.agent = &spec.Agent{}
	f.paths(func() error { return landlock.ErrUnsupported })
	if len(f.problems) > 0 {
		t.Errorf("%+v", f.problems)
	}
}

// A path in [aide] is relative to the directory of each Aidefile; the hint explains it.
func TestAideHint(t *testing.T) {
	for program, want := range map[string]string{
		"./run.sh":    "relative to the directory of each Aidefile",
		"bin/run":     "relative to the directory of each Aidefile",
		"/opt/run":    "install it, or set command in the table [aide]",
		"no-such-llm": "install it, or set command in the table [aide]",
	} {
		if got := aideHint(program); !strings.Contains(got, want) {
			t.Errorf("%s: %s", program, got)
		}
	}
}
