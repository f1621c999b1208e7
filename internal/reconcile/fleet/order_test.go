package fleet

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestOrder: for each node, who starts it and after which sibling.
func TestOrder(t *testing.T) {
	agent := func(name string, needs ...string) spec.Decl {
		return spec.Decl{Agent: &spec.Agent{Name: name, Dir: "/", Command: []string{name}, DependsOn: needs}}
	}
	suspended := agent("b")
	suspended.Agent.Suspended = true
	s := func(strategy supervisor.Strategy, children ...string) spec.Decl {
		return spec.Decl{Node: &spec.Node{Name: "s", Strategy: strategy}, Children: children}
	}
	in := spec.Decl{Node: &spec.Node{Name: "in"}, Children: []string{"b"}}
	tests := map[string]struct {
		decls         []spec.Decl
		manual, after string
	}{
		"under the root, in parallel": {[]spec.Decl{agent("a"), agent("b", "a")}, "t/a t/b", ""},
		"in the order of siblings":    {[]spec.Decl{s(supervisor.OneForOne, "a", "b"), agent("a"), agent("b")}, "t/s", ""},
		"with a dependency":           {[]spec.Decl{s(supervisor.OneForOne, "a", "b"), agent("a"), agent("b", "a")}, "t/s t/s/b", ""},
		"suspended":                   {[]spec.Decl{s(supervisor.OneForOne, "a", "b"), agent("a"), suspended}, "t/s t/s/b", ""},
		"group": {[]spec.Decl{s(supervisor.OneForAll, "a", "b"), agent("a"), agent("b")},
			"t/s", "t/s/b:t/s/a"},
		"group with a dependency, and what comes after it": {
			[]spec.Decl{s(supervisor.RestForOne, "a", "b", "c"), agent("a"), agent("b", "d"), agent("c"), agent("d")},
			"t/d t/s t/s/b t/s/c", "t/s/b:t/s/a t/s/c:t/s/b",
		},
		"group with a supervisor": {
			[]spec.Decl{s(supervisor.RestForOne, "a", "in", "c"), agent("a"), in, agent("b"), agent("c")},
			"t/s t/s/c", "t/s/c:t/s/in t/s/in:t/s/a",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree, problems := spec.Assemble(spec.Node{Name: "t"}, tt.decls)
			if problems != nil {
				t.Fatal(problems)
			}
			f := New(tree, Config{})
			if got := strings.Join(slices.Sorted(maps.Keys(f.Manual)), " "); got != tt.manual {
				t.Errorf("the reconciler starts %q, want %q", got, tt.manual)
			}
			var after []string
			for _, path := range slices.Sorted(maps.Keys(f.After)) {
				after = append(after, path+":"+f.After[path])
			}
			if got := strings.Join(after, " "); got != tt.after {
				t.Errorf("the siblings before are %q, want %q", got, tt.after)
			}
		})
	}
}
