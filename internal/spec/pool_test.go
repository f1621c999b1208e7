package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/supervisor"
)

func poolTree(t *testing.T, p Pool) *Tree {
	t.Helper()
	tree, problems := Assemble(Node{Name: "x"}, []Decl{
		{Node: &Node{Name: "crew"}, Children: []string{"worker", "other"}},
		{Agent: &Agent{Name: "other", Command: []string{"true"}}},
		{Agent: &Agent{Name: "worker", Command: []string{"work"}, Env: map[string]string{"A": "1"}, Pool: &p}},
		{Node: &Node{Name: "rest"}, Children: []string{"last"}},
		{Agent: &Agent{Name: "last", Command: []string{"true"}}},
	})
	if problems != nil {
		t.Fatalf("%+v", problems)
	}
	return tree
}

func paths(tree *Tree) string {
	var all []string
	for path := range tree.All() {
		all = append(all, strings.TrimPrefix(path, "x/"))
	}
	return strings.Join(all, " ")
}

func TestLayout(t *testing.T) {
	tree := poolTree(t, Pool{Max: 20, OnDeath: Hook{Command: []string{"bury"}}})
	const noInstances = "crew crew/worker crew/other rest rest/last"
	if got := paths(tree); got != noInstances {
		t.Fatalf("without instances there is %s", got)
	}
	laid := tree.Layout(map[string][]string{"x/crew/worker": {"worker-10", "worker-2", "gone", "worker-1", "worker-2", "b"}, "x/nothing": {"a"}})
	if got, want := paths(laid), "crew crew/worker crew/worker/worker-1 crew/worker/worker-2 crew/worker/worker-10 crew/worker/b crew/worker/gone crew/other rest rest/last"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := paths(tree); got != noInstances {
		t.Errorf("the tree itself has become %s", got)
	}
	if laid.Root.Children[1].Node != tree.Root.Children[1].Node {
		t.Error("what has no pool in it is not shared")
	}
	for path := range laid.All() {
		if got := laid.StartOrder().Needs(path); len(got) > 0 {
			t.Errorf("%s waits for %v", path, got)
		}
	}
	template := tree.Pools()["x/crew/worker"].Template
	for path, c := range laid.All() {
		if path != "x/crew/worker/worker-10" {
			continue
		}
		want := *template
		want.Name, want.Pool, want.Instance = "worker-10", nil, Instance{"worker", 10}
		want.Hooks.Death = Hook{Command: []string{"bury"}, Timeout: DefaultHookTimeout}
		if diff := cmp.Diff(&want, c.Agent); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if c.Agent.DeclaredHash().Sum != template.DeclaredHash().Sum {
			t.Error("an instance has another hash than its template")
		}
	}
	if again := laid.Layout(nil); paths(again) != noInstances {
		t.Errorf("laid out again with nothing: %s", paths(again))
	}
}

// TestPoolDependencies checks that a pool waits for the dependencies of its agent, and that its
// dependents wait for all instances.
func TestPoolDependencies(t *testing.T) {
	tree, problems := Assemble(Node{Name: "x"}, []Decl{
		{Agent: &Agent{Name: "db", Command: []string{"true"}}},
		{Agent: &Agent{Name: "p", Command: []string{"true"}, DependsOn: []string{"db"}, Pool: &Pool{Max: 2}}},
		{Agent: &Agent{Name: "web", Command: []string{"true"}, DependsOn: []string{"p"}}},
	})
	if problems != nil {
		t.Fatalf("%+v", problems)
	}
	order := tree.Layout(map[string][]string{"x/p": {"p-1", "p-2"}}).StartOrder()
	for path, want := range map[string]string{"x/p": "x/db", "x/p/p-1": "x/db", "x/p/p-2": "x/db", "x/web": "x/p"} {
		if got := strings.Join(order.Needs(path), " "); got != want {
			t.Errorf("%s waits for %q, want %q", path, got, want)
		}
	}
}

func TestInstances(t *testing.T) {
	numbered := &Agent{Name: "w", Pool: &Pool{Min: 1, Max: 3}}
	named := &Agent{Name: "w", Pool: &Pool{Max: UnlimitedPool, Names: []string{"b", "w-1", "a"}}}
	endless := &Agent{Name: "w", Pool: &Pool{Max: UnlimitedPool}}
	for _, tt := range []struct {
		g    *Agent
		n    int
		want string
	}{
		{numbered, -1, ""}, {numbered, 0, ""}, {numbered, 2, "w-1 w-2"}, {numbered, 9, "w-1 w-2 w-3"},
		{named, 2, "b w-1"}, {named, 9, "b w-1 a"},
	} {
		if got := strings.Join(tt.g.Instances(tt.n), " "); got != tt.want {
			t.Errorf("%d of %+v: %s, want %s", tt.n, tt.g.Pool, got, tt.want)
		}
	}
	if all := endless.Instances(1 << 40); len(all) != MaxInstances || all[MaxInstances-1] != "w-1000" {
		t.Errorf("an endless pool has %d instances", len(all))
	}
	for name, want := range map[string]int{"w-1": 1, "w-1000": 1000, "w-1001": 0, "w-0": 0, "w-01": 0, "w-+1": 0, "w-": 0, "w": 0, "v-1": 0, "w--1": 0} {
		if got := numbered.Number(name); got != want {
			t.Errorf("%s has the number %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]int{"b": 1, "w-1": 2, "a": 3, "w-2": 0} {
		if got := named.Number(name); got != want {
			t.Errorf("%s has the number %d, want %d", name, got, want)
		}
	}
	for _, p := range []struct {
		pool *Pool
		in   []int
		want []int
	}{
		{numbered.Pool, []int{-5, 0, 1, 2, 3, 4}, []int{1, 1, 1, 2, 3, 3}},
		{named.Pool, []int{0, 3, 4}, []int{0, 3, 3}},
		{&Pool{}, []int{1}, []int{0}},
		{endless.Pool, []int{999, 1001}, []int{999, MaxInstances}},
	} {
		var got []int
		for _, n := range p.in {
			got = append(got, p.pool.Clamp(n))
		}
		if !slices.Equal(got, p.want) {
			t.Errorf("%+v clamps %v to %v, want %v", p.pool, p.in, got, p.want)
		}
	}
}

// TestPoolLevel checks that a pool counts as a level of supervisors.
func TestPoolLevel(t *testing.T) {
	decls := []Decl{{Agent: &Agent{Name: "p", Command: []string{"true"}, Pool: &Pool{Max: 1}}}}
	for i := range supervisor.MaxDepth {
		below := "p"
		if i > 0 {
			below = string(rune('a' + i - 1))
		}
		decls = append(decls, Decl{Node: &Node{Name: string(rune('a' + i))}, Children: []string{below}})
		_, problems := Assemble(Node{Name: "x"}, decls)
		deepest := i + 3 // with the root, and the pool
		if got, want := len(problems) > 0, deepest > supervisor.MaxDepth; got != want {
			t.Errorf("a pool on level %d: problems %+v", deepest, problems)
		}
	}
}

func TestPoolLimit(t *testing.T) {
	tree := poolTree(t, Pool{Max: 1})
	if got := tree.Pools()["x/crew/worker"].Template.Limit; got != DefaultPatrol().Limit {
		t.Errorf("the limit of an instance is %v", got)
	}
}
