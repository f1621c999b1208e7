package spec

import (
	"fmt"
	"strings"
	"testing"
)

// outline returns a tree as text: each path, with "!" if it is retired, and its dependencies.
func outline(t *Tree) string {
	var all []string
	order := t.StartOrder()
	for path, c := range t.All() {
		text := path
		if c.Node != nil && c.Node.Retired {
			text += "!"
		}
		if needs := order.Needs(path); needs != nil {
			text += fmt.Sprint(needs)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestRetain(t *testing.T) {
	agent := func(name string, needs ...string) Decl {
		return Decl{Agent: &Agent{Name: name, Dir: "/", Command: []string{"x"}, DependsOn: needs}}
	}
	pool := &Agent{Name: "w", Dir: "/", Command: []string{"x"}, Pool: &Pool{Max: 2}, DependsOn: []string{"db", "gone"}}
	for _, tt := range []struct {
		name  string
		decls []Decl
		path  string
		want  string
	}{
		{"removed", []Decl{agent("db"), agent("b")}, "t/w", "t/db t/b t/w![t/db] t/w/w-1[t/db] t/w/w-2[t/db]"},
		{"it is an agent now", []Decl{agent("db"), agent("w"), agent("b", "w")}, "t/w", "t/db t/w! t/w/w-1 t/w/w-2 t/b[t/w]"},
		{"what it depended on depends on it now", []Decl{agent("w"), agent("db", "w")}, "t/w", "t/w! t/w/w-1 t/w/w-2 t/db[t/w]"},
		{"its supervisor is gone, too", []Decl{agent("db")}, "t/in/w", "t/db t/in! t/in/w![t/db] t/in/w/w-1[t/db] t/in/w/w-2[t/db]"},
		{"its supervisor is an agent now", []Decl{agent("in"), agent("b", "in")}, "t/in/w", "t/in! t/in/w! t/in/w/w-1 t/in/w/w-2 t/b[t/in]"},
		{"it has moved", []Decl{agent("db"), {Node: &Node{Name: "in"}, Children: []string{"w"}}, agent("w", "db"), agent("b", "w")}, "t/w",
			"t/db t/in t/in/w[t/db] t/b[t/in/w] t/w! t/w/w-1 t/w/w-2"},
		{"its supervisor is still there", []Decl{{Node: &Node{Name: "in"}, Children: []string{"a"}}, agent("a")}, "t/in/w", "t/in t/in/a t/in/w! t/in/w/w-1 t/in/w/w-2"},
		{"of another project", []Decl{agent("a")}, "other/w", "t/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, problems := Assemble(Node{Name: "t"}, tt.decls)
			if problems != nil {
				t.Fatal(problems)
			}
			before := outline(file)
			kept := file.Retain(map[string]*Agent{tt.path: pool}).Layout(map[string][]string{tt.path: {"w-1", "w-2"}})
			if got := outline(kept); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := outline(file); got != before {
				t.Errorf("the file has become %s", got)
			}
			if got := outline(file.Retain(nil)); got != before {
				t.Errorf("with nothing retained it is %s", got)
			}
			stopWaves(kept.StartOrder(), allAgents) // must terminate
		})
	}
}
