package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Where an agent may write is relative to its directory; ~/ is its home.
func TestWritePaths(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	tree, err := Parse("/p/coppice.toml", []byte(`[[agent]]
name = "a"
command = "x"
dir = "sub"
read_write_paths = ["work", "-~/.claude", "~", "/tmp/../x", ".", "-~other", "-../y/"]
read_only_paths = ["work/go.mod", "-~/.claude/settings.json"]
[[agent]]
name = "b"
command = "x"
env = { HOME = "/home/b" }
read_write_paths = ["~/c"]
[[agent]]
name = "nothing"
command = "x"
read_write_paths = []
[[agent]]
name = "anything"
command = "x"
`))
	if err != nil {
		t.Fatal(err)
	}
	var got [][2][]string
	for _, c := range tree.Root.Children {
		got = append(got, [2][]string{c.Agent.ReadWritePaths, c.Agent.ReadOnlyPaths})
	}
	root := tree.Root.Children[1].Agent.Dir
	sub := filepath.Join(root, "sub")
	want := [][2][]string{
		{{sub + "/work", "-/home/me/.claude", "/home/me", "/x", sub, "-" + sub + "/~other", "-" + root + "/y"},
			{sub + "/work/go.mod", "-/home/me/.claude/settings.json"}},
		{{"/home/b/c"}, nil}, {{}, nil}, {nil, nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
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
		f := fileCheck{agent: a, decl: 3}
		f.paths(func() error { return c.supported })
		if len(f.problems) != 1 || f.problems[0].Path[0] != c.key || !strings.Contains(f.problems[0].Message, c.want) {
			t.Errorf("%v: %+v", c.supported, f.problems)
		}
		// Those of a pipeline limit its stages.
		stages := &pipeline.Settings{Writable: a.ReadWritePaths, ReadOnly: a.ReadOnlyPaths}
		f = fileCheck{agent: &spec.Agent{Pipeline: stages}}
		f.paths(func() error { return c.supported })
		if len(f.problems) != 1 || f.problems[0].Path[0] != c.key || !strings.Contains(f.problems[0].Message, c.want) {
			t.Errorf("pipeline: %v: %+v", c.supported, f.problems)
		}
	}
	if err := os.Mkdir(dir+"/none", 0o755); err != nil {
		t.Fatal(err)
	}
	f := fileCheck{agent: a}
	f.paths(func() error { return nil })
	f.agent = &spec.Agent{}
	f.paths(func() error { return landlock.ErrUnsupported })
	if len(f.problems) > 0 {
		t.Errorf("%+v", f.problems)
	}
}
