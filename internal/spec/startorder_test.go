package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/supervisor"
)

// tree parses a tree in shorthand, one declaration per line: "a", "a < b c" with dependencies,
// "s: a b" for a supervisor, "s! a b" for a rest_for_one supervisor.
func tree(text string) (*Tree, []Problem) {
	root := Node{Name: "p"}
	var decls []Decl
	for line := range strings.Lines(text) {
		head, needs, _ := strings.Cut(strings.TrimSpace(line), "<")
		depends := strings.Fields(needs)
		mark := strings.IndexAny(head, ":!&=")
		switch {
		case strings.TrimSpace(line) == "":
		case strings.TrimSpace(line) == "p!":
			root.Strategy = supervisor.RestForOne
		case mark < 0:
			decls = append(decls, Decl{Agent: &Agent{Name: strings.TrimSpace(head), Command: []string{"x"}, DependsOn: depends}})
		default:
			n := &Node{Name: head[:mark], DependsOn: depends}
			switch head[mark] {
			case '!':
				n.Strategy = supervisor.RestForOne
			case '&':
				n.Strategy = supervisor.OneForAll
			case '=':
				n.InOrder = true
			}
			decls = append(decls, Decl{Node: n, Children: strings.Fields(head[mark+1:])})
		}
	}
	return Assemble(root, decls)
}

// formatWaves formats waves as "a b | c".
func formatWaves(waves [][]string) string {
	var all []string
	for _, w := range waves {
		var names []string
		for _, path := range w {
			names = append(names, path[strings.LastIndexByte(path, '/')+1:])
		}
		all = append(all, strings.Join(names, " "))
	}
	return strings.Join(all, " | ")
}

func allAgents(string) bool { return true }

// stopWaves returns the agents in stop order. Agents that may stop at the same time form a wave.
func stopWaves(o *StartOrder, choose func(string) bool) (waves [][]string) {
	for u := o.StopOrder(choose); ; {
		free := u.Free()
		if len(free) == 0 {
			return waves
		}
		waves = append(waves, free)
		for _, path := range free {
			u.Ended(path)
		}
	}
}

func TestStopOrder(t *testing.T) {
	for _, c := range []struct{ name, tree, chosen, want string }{
		{"independent", "a\nb\nc", "", "c b a"},
		{"a line", "a < b\nb < c\nc", "", "a | b | c"},
		{"a diamond", "api < cache db\ncache < net\ndb < net\nnet", "", "api | db cache | net"},
		{"through what is not chosen", "api < cache\ncache < db\ndb", "api db", "api | db"},
		{"the last alone", "api < cache\ncache < db\ndb", "api", "api"},
		{"on a supervisor", "s: a b\nb < a\nc < s\na", "", "c | b | a"},
		{"on an empty supervisor", "s:\na < s", "", "a"},
		{"on a supervisor, of which one is chosen", "s: a b\nc < s\na\nb", "b c", "c | b"},
		{"of a supervisor", "s: a b < c\na\nb\nc", "", "b a | c"},
		{"of the outer one", "s: t < c\nt: a\na\nc\nd", "", "d a | c"},
		{"of both", "s: a < x\nt: b < s\na < y\nb\nx\ny", "", "b | a | x y"},
		{"rest_for_one", "s! a b c\na\nb\nc\nd", "", "d c | b | a"},
		{"rest_for_one with a supervisor", "s! t c\nt: a b\na\nb\nc", "", "c | b a"},
		{"rest_for_one as the root", "p!\na\nb\nc", "", "c | b | a"},
		{"one_for_all", "s& a b c\na\nb\nc", "", "c b a"},
		{"one_for_all with a dependency", "s& a b c\na\nb\nc < a", "", "c b | a"},
		{"in order", "s= a t c\na\nt: b d\nb\nc\nd\ne", "", "e c | d b | a"},
		{"in order, nested", "s= a t c\na\nt= b d\nb\nc\nd", "", "c | d | b | a"},
		{"a waiter is no obstacle", "s! a b\na\nb\nc < a", "", "c b | a"},
		{"nothing chosen", "a\nb", "zzz", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, problems := tree(c.tree)
			if problems != nil {
				t.Fatal(problems)
			}
			choose := func(path string) bool {
				return c.chosen == "" || slices.Contains(strings.Fields(c.chosen), path[strings.LastIndexByte(path, '/')+1:])
			}
			if got := formatWaves(stopWaves(tr.StartOrder(), choose)); got != c.want {
				t.Errorf("they are stopped %q, want %q", got, c.want)
			}
		})
	}
}

func TestNeeds(t *testing.T) {
	tr, problems := tree("s! a t < x\nt: b < y x\na\nb < a\nx\ny")
	if problems != nil {
		t.Fatal(problems)
	}
	o := tr.StartOrder()
	for path, want := range map[string]string{
		"p/s/a": "p/x", "p/s/t/b": "p/s/a p/y p/x", "p/s/t": "p/y p/x", "p/x": "", "p": "", "zzz": "",
	} {
		if got := strings.Join(o.Needs(path), " "); got != want {
			t.Errorf("%s needs %q, want %q", path, got, want)
		}
	}
}

func TestBadDependencies(t *testing.T) {
	for _, c := range []struct{ name, tree, want string }{
		{"unknown", "a < bakend\nbackend", `a/0: unknown dependency "bakend", expected the name of an agent or supervisor; did you mean "backend"?`},
		{"a path", "a < s/b\ns: b\nb", `a/0: unknown dependency "s/b", expected the name of an agent or supervisor; write "b": names are unique, and paths change`},
		{"the project", "web < p", `web/0: unknown dependency "p", expected the name of an agent or supervisor`},
		{"twice", "a < b b\nb", `a/1: the dependency "b" is listed twice, expected once; remove one of the two`},
		{"itself", "a < a", `a/0: "a" depends on itself, expected others; remove it`},
		{"a supervisor on itself", "s: a < s\na", `s/0: "s" depends on itself, expected others; remove it`},
		{"its supervisor", "s: a\na < s", `a/0: "a" depends on "s", which it is in, expected something else; depend on its siblings instead`},
		{"the one above", "s: t\nt: a\na < s", `a/0: "a" depends on "s", which it is in, expected something else; depend on its siblings instead`},
		{"its child", "s: t < a\nt: a\na", `s/0: "s" depends on "a", which is in it, expected something else; let its other children depend on that`},
		{"two", "a < b\nb < a", `a/0: dependencies form a cycle ("a" depends on "b", which depends on "a"), expected an order; remove one of these dependencies`},
		{"behind a line", "z < a\na < b\nb < c\nc < a", `a/0: dependencies form a cycle ("a" depends on "b", which depends on "c", which depends on "a"), expected an order; remove one of these dependencies`},
		{"two circles", "a < b\nb < a\nc < d\nd < c", `
			a/0: dependencies form a cycle ("a" depends on "b", which depends on "a"), expected an order; remove one of these dependencies
			c/0: dependencies form a cycle ("c" depends on "d", which depends on "c"), expected an order; remove one of these dependencies`},
		{"through containment", "s: a\na < b\nb < s",
			`a/0: dependencies form a cycle ("a" depends on "b", which depends on "s", which contains "a"), expected an order; remove one of these dependencies`},
		{"through a supervisor's own", "s: a < t\nt: b\na\nb < a",
			`s/0: dependencies form a cycle ("s" depends on "t", which contains "b", which depends on "a", which is in "s"), expected an order; remove one of these dependencies`},
		{"against rest_for_one", "s! a b\na < b\nb",
			`a/0: dependencies form a cycle ("a" depends on "b", which comes after "a" in a rest_for_one supervisor), expected an order; list "b" before "a", or remove one of these dependencies`},
		{"against one_for_all", "s& a t\na < b\nt: b\nb",
			`a/0: dependencies form a cycle ("a" depends on "b", which is in "t", which comes after "a" in a one_for_all supervisor), expected an order; list "t" before "a", or remove one of these dependencies`},
		{"against the order through others", "s& a b\na < x\nb\nx < b",
			`a/0: dependencies form a cycle ("a" depends on "x", which depends on "b", which comes after "a" in a one_for_all supervisor), expected an order; list "b" before "a", or remove one of these dependencies`},
		{"next to another fault", "s: a zzz\na < b\nb < a\n", `s/1: unknown child "zzz", expected the name of an agent or supervisor`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, problems := tree(c.tree)
			if tr != nil {
				t.Error("there is a tree")
			}
			var got []string
			names := declaredNames(c.tree)
			for _, p := range problems {
				line := fmt.Sprintf("%s/%s: %s", names[p.Decl], p.Path[1], p.Message)
				if p.Hint != "" {
					line += "; " + p.Hint
				}
				got = append(got, line)
			}
			var want []string
			for line := range strings.Lines(strings.TrimSpace(c.want)) {
				want = append(want, strings.TrimSpace(line))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// declaredNames returns the names of the declarations in shorthand.
func declaredNames(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "<")
		name, _, _ = strings.Cut(name, ":")
		name, _, _ = strings.Cut(name, "!")
		name, _, _ = strings.Cut(name, "&")
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// A very long cycle and very many cycles are reported in bounded space and time.
func TestManyCycles(t *testing.T) {
	const n = 20_000
	var long, many strings.Builder
	for i := range n {
		fmt.Fprintf(&long, "a%d < a%d\n", i, (i+1)%n)
		fmt.Fprintf(&many, "a%d < a%d\n", i, i^1)
	}
	_, problems := tree(long.String())
	if len(problems) != 1 || len(problems[0].Message) > 2000 || !strings.HasSuffix(problems[0].Message, `, and so on), expected an order`) {
		t.Errorf("a long circle: %v", problems)
	}
	if _, problems := tree(many.String()); len(problems) != maxCycles {
		t.Errorf("%d of many cycles are reported, want %d", len(problems), maxCycles)
	}
}

// agentNeeds returns the agents that each agent depends on, following the documentation
// literally.
func agentNeeds(t *Tree) map[string][]string {
	below := map[string][]string{} // agents in a supervisor, by its name
	var visit func(n *Node, path string) []string
	visit = func(n *Node, path string) (all []string) {
		for _, c := range n.Children {
			p := path + "/" + c.Name()
			in := []string{p}
			if c.Node != nil {
				in = visit(c.Node, p)
			}
			below[c.Name()] = in
			all = append(all, in...)
		}
		return all
	}
	visit(t.Root, t.Root.Name)
	needs := map[string][]string{}
	var walk func(n *Node, inherited []string)
	walk = func(n *Node, inherited []string) {
		var before []string
		for _, c := range n.Children {
			own := slices.Clone(inherited)
			for _, name := range c.DependsOn() {
				own = append(own, below[name]...)
			}
			if n.Strategy == supervisor.RestForOne {
				own = append(own, before...)
				before = append(before, below[c.Name()]...)
			}
			if c.Node != nil {
				walk(c.Node, own)
			} else {
				needs[below[c.Name()][0]] = own
			}
		}
	}
	walk(t.Root, nil)
	return needs
}

// Random trees are either rejected for a cycle that exists, or each agent stops as early as its
// dependents allow.
func TestOrderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "nodes")
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("n%d", i)
		}
		decls := make([]Decl, n)
		children := make([][]string, n)
		isNode := make([]bool, n)
		for i := 1; i < n; i++ {
			isNode[i] = rapid.IntRange(0, 3).Draw(t, "kind") == 0
		}
		for i := range n { // a parent has a higher number, so that nothing contains itself
			var above []int
			for j := i + 1; j < n; j++ {
				if isNode[j] {
					above = append(above, j)
				}
			}
			if k := rapid.IntRange(0, len(above)).Draw(t, "parent"); k > 0 {
				children[above[k-1]] = append(children[above[k-1]], names[i])
			}
		}
		strategies := []supervisor.Strategy{supervisor.OneForOne, supervisor.OneForAll, supervisor.RestForOne}
		for i := range n {
			var needs []string
			for j := range n {
				if j != i && rapid.IntRange(0, 9).Draw(t, "needs") == 0 {
					needs = append(needs, names[j])
				}
			}
			if isNode[i] {
				decls[i] = Decl{Node: &Node{Name: names[i], DependsOn: needs, Strategy: rapid.SampledFrom(strategies).Draw(t, "strategy")}, Children: children[i]}
			} else {
				decls[i] = Decl{Agent: &Agent{Name: names[i], Command: []string{"x"}, DependsOn: needs}}
			}
		}
		root := Node{Name: "p", Strategy: rapid.SampledFrom(strategies).Draw(t, "root")}
		tr, problems := Assemble(root, decls)
		if problems != nil {
			for _, p := range problems {
				if p.Path[0] != "depends_on" || !strings.Contains(p.Message, "circle") && !strings.Contains(p.Message, "which") {
					t.Fatalf("unexpected: %+v", p)
				}
			}
			return
		}
		needs := agentNeeds(tr)
		chosen := map[string]bool{}
		for path := range needs {
			chosen[path] = rapid.Bool().Draw(t, "chosen")
		}
		waiting := map[string][]string{} // what depends on an agent, by its path
		for path, all := range needs {
			for _, need := range all {
				waiting[need] = append(waiting[need], path)
			}
		}
		waves := stopWaves(tr.StartOrder(), func(path string) bool { return chosen[path] })
		wave := map[string]int{}
		for k, w := range waves {
			for _, path := range w {
				if _, twice := wave[path]; twice || !chosen[path] {
					t.Fatalf("%s is there twice or not chosen", path)
				}
				wave[path] = k
			}
		}
		var depth func(path string) int
		depth = func(path string) (d int) { // chosen agents that end before it on the longest path
			for _, other := range waiting[path] {
				one := 0
				if chosen[other] {
					one = 1
				}
				d = max(d, depth(other)+one)
			}
			return d
		}
		for path := range needs {
			if k, in := wave[path]; in != chosen[path] || in && k != depth(path) {
				t.Fatalf("%s (chosen: %v) is stopped in wave %d, want %d", path, chosen[path], k, depth(path))
			}
		}
	})
}

// The time for a fleet in which one half depends on a supervisor of the other half is linear in
// the number of agents, not of pairs.
func BenchmarkStopOrder(b *testing.B) {
	var text strings.Builder
	text.WriteString("s:")
	for i := range 5000 {
		fmt.Fprintf(&text, " a%d", i)
	}
	text.WriteString("\n")
	for i := range 5000 {
		fmt.Fprintf(&text, "a%d\nb%d < s\n", i, i)
	}
	tr, problems := tree(text.String())
	if problems != nil {
		b.Fatal(problems)
	}
	for b.Loop() {
		if w := stopWaves(tr.StartOrder(), allAgents); len(w) != 2 {
			b.Fatal(len(w))
		}
	}
}

// Instances have the order of their pool, whatever their names are.
func TestOrderOfPools(t *testing.T) {
	command := []string{"x"}
	tr, problems := Assemble(Node{Name: "p"}, []Decl{
		{Agent: &Agent{Name: "api", Command: command, DependsOn: []string{"workers"}}},
		{Agent: &Agent{Name: "workers", Command: command, DependsOn: []string{"ada"}, Pool: &Pool{Max: 2, Names: []string{"ada", "bob"}}}},
		{Agent: &Agent{Name: "ada", Command: command}},
	})
	if problems != nil {
		t.Fatal(problems)
	}
	o := tr.Layout(map[string][]string{"p/workers": {"ada", "bob"}}).StartOrder()
	want := [][]string{{"p/api"}, {"p/workers/bob", "p/workers/ada"}, {"p/ada"}}
	if got := stopWaves(o, allAgents); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("waves are %v, want %v", got, want)
	}
	if got := stopWaves(tr.StartOrder(), allAgents); formatWaves(got) != "api | ada" {
		t.Errorf("without instances, waves are %v", got)
	}
}

// A supervisor without agents is always ready: it waits for nothing and delays nothing.
func TestOrderOfEmptySupervisors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"depended on", "e: < a\na\nb < e", "b a"},
		{"depended on, with another empty one in it", "e: f < a\nf: < a\na\nb < e", "b a"},
		{"between siblings", "s! a e b\ne: < z\na\nb\nz", "z b | a"},
	} {
		tr, problems := tree(tt.text + "\n")
		if problems != nil {
			t.Errorf("%s: %v", tt.name, problems)
			continue
		}
		if got := formatWaves(stopWaves(tr.StartOrder(), allAgents)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
