package config

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
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
