package spec

import (
	"slices"
	"testing"
)

// The hash of an agent is the same on machines that have the project in different directories.
func TestHome(t *testing.T) {
	in := func(home string) *Agent {
		a := &Agent{
			Name: "a", Command: []string{"x"}, Dir: home + "/sub", Stdin: home + "/in", EnvFiles: []string{home + "/env"},
			ReadWritePaths: []string{home, "-" + home + "/x", "/tmp"}, ReadOnlyPaths: []string{home + "/.git"},
			Files: []string{home + "/notes", "/etc/motd"},
		}
		tree := &Tree{Root: &Node{Name: "t", Children: []Child{{Agent: a}, {Node: &Node{Name: "p", Template: a}}}}}
		tree.SetHome(home)
		return a
	}
	here, there := in("/here/p"), in("/there")
	content := func(home string) func(string) string {
		return func(path string) string {
			if !slices.Contains([]string{home + "/notes", home + "/env", "/etc/motd"}, path) {
				t.Errorf("the content of %s", path)
			}
			return "content"
		}
	}
	a, b := here.Hash(content("/here/p")), there.Hash(content("/there"))
	if a.Sum != b.Sum {
		t.Errorf("%+v and %+v", a, b)
	}
	if late := there.DeclaredHash().Complete(there, content("/there")); late.Sum != b.Sum {
		t.Errorf("completed later: %+v, want %+v", late, b)
	}
	there.Dir = "/elsewhere/sub"
	if got := there.Hash(content("/there")).Changed(a); !slices.Equal(got, []string{"dir"}) {
		t.Errorf("changed: %v", got)
	}
}
