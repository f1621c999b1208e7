package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/supervisor"
)

// Decl is a declaration of a supervisor or agent. Declarations are flat and refer to children
// by name. Exactly one of Node and Agent is set.
type Decl struct {
	Node     *Node
	Children []string // of Node, in start order
	Agent    *Agent
}

// isNode reports whether the declaration becomes a supervisor. Pools do, too.
func (d Decl) isNode() bool { return d.Node != nil || d.Agent.Pool != nil }

// Problem is a fault in the declarations.
type Problem struct {
	// Decl is the index of the declaration; Root for the root.
	Decl int
	// Path is the path of the field in coppice.toml, down to an element: {"shutdown", "signal"},
	// {"children", "2"}. It is empty for a declaration as a whole.
	Path []string
	// Other is 1 plus the index of another declaration that the message mentions; 0 for none.
	Other int
	// Message states the fault and what was expected. Hint is a remedy and may be empty.
	Message, Hint string
}

// Root is the Decl of a Problem in the root or in the tree as a whole.
const Root = -1

// Assemble builds a tree from declarations, fills in defaults and checks everything. Agents
// and supervisors that no supervisor names are children of the root, in order of declaration.
// It returns either the tree or all problems.
func Assemble(root Node, decls []Decl) (*Tree, []Problem) {
	a := &assembly{decls: slices.Clone(decls), byName: map[string]int{}, parent: make([]int, len(decls)),
		root: root.Strategy}
	a.checker(Root).checkNode(&root)
	a.declare(root.AllowEmpty || root.Program != "")
	before := len(a.problems)
	a.assignParents()
	a.checkNesting()
	a.checkDependencies(&root, len(a.problems) == before)
	a.checkChildren(Root, &root)
	for i, d := range a.decls {
		if d.Node != nil {
			a.checkChildren(i, d.Node)
		}
	}
	if len(a.problems) > 0 {
		return nil, a.problems
	}
	root.Children = a.build(Root)
	return &Tree{Root: &root, Patrol: DefaultPatrol()}, nil
}

type assembly struct {
	decls    []Decl
	byName   map[string]int // index of the first declaration of a name
	parent   []int          // by index; Root if no supervisor names it
	root     supervisor.Strategy
	namedBy  []Problem // by index: where the parent names it, for problems of nesting
	problems []Problem
}

func (a *assembly) problem(decl int, path []string, hint, format string, args ...any) {
	a.checker(decl).problem(path, hint, format, args...)
}

func (a *assembly) checker(decl int) checker { return checker{decl, &a.problems} }

// declare checks each declaration on its own and records its name. If bare is true, there may
// be no agents.
func (a *assembly) declare(bare bool) {
	agents, nodes := 0, 0
	ordinal := make([]string, len(a.decls)) // how messages call declarations that share a name
	for i, d := range a.decls {
		var name string
		if d.Node != nil {
			node := *d.Node
			node.Children = nil
			a.decls[i].Node = &node
			a.checker(i).checkNode(&node)
			name = node.Name
			nodes++
			ordinal[i] = fmt.Sprintf("supervisor number %d", nodes)
		} else {
			agent := *d.Agent
			a.decls[i].Agent = &agent
			a.checker(i).checkAgent(&agent)
			name = agent.Name
			agents++
			ordinal[i] = fmt.Sprintf("agent number %d", agents)
		}
		if first, ok := a.byName[name]; ok && name != "" {
			a.problem(i, []string{"name"}, "names are unique in the whole file, supervisors and agents together",
				"the name %s is taken by %s, expected another one", Quote(name), ordinal[first])
			a.problems[len(a.problems)-1].Other = first + 1
		} else {
			a.byName[name] = i
		}
	}
	if agents == 0 && !bare {
		a.problem(Root, nil, "`coppice init` writes an example", "nothing to run, expected at least one agent")
	}
}

// maxSuggestions limits the number of unknown names for which a similar one is searched.
const maxSuggestions = 100

// assignParents makes the first supervisor that names a child its parent.
func (a *assembly) assignParents() {
	a.namedBy = make([]Problem, len(a.decls))
	for i := range a.parent {
		a.parent[i] = Root
	}
	var names []string // for suggestions
	unknown := 0
	for i, d := range a.decls {
		for n, name := range d.Children {
			at := []string{"children", strconv.Itoa(n)}
			c, known := a.byName[name]
			switch {
			case !known || name == "":
				if unknown++; unknown == 1 {
					names = a.names()
				}
				hint := ""
				if unknown <= maxSuggestions {
					others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == d.Node.Name })
					hint = DidYouMean(name, others...)
				}
				a.problem(i, at, hint, "unknown child %s, expected the name of an agent or supervisor", Quote(name))
			case a.namedBy[c].Path != nil && a.parent[c] == i:
				a.problem(i, at, "remove one of the two", "the child %s is listed twice, expected once", Quote(name))
			case a.namedBy[c].Path != nil:
				a.problem(i, at, "remove it from one of the two",
					"%s is already a child of %s, expected one supervisor for each",
					Quote(name), Quote(a.decls[a.parent[c]].Node.Name))
			default:
				a.parent[c] = i
				a.namedBy[c] = Problem{Decl: i, Path: at}
			}
		}
	}
}

// checkNesting reports cycles and supervisors that are nested too deep. Each node has at most
// one parent by now.
func (a *assembly) checkNesting() {
	const unseen, onPath, cyclic = 0, -1, -2
	level := make([]int, len(a.decls)) // of a supervisor, where the root is 1; or one of the above
	for i := range a.decls {
		var path []int // from i up to a node with a known level
		at := i
		for at != Root && level[at] == unseen {
			level[at] = onPath
			path = append(path, at)
			at = a.parent[at]
		}
		if at != Root && level[at] == onPath {
			a.cycle(path[slices.Index(path, at):])
			for _, w := range path {
				level[w] = cyclic
			}
			continue
		}
		above := 1
		if at != Root {
			above = level[at]
		}
		for _, w := range slices.Backward(path) {
			if above == cyclic {
				level[w] = cyclic
				continue
			}
			above++
			level[w] = above
			// Reported once per chain: everything below is too deep for the same reason.
			if d := a.decls[w]; d.isNode() && above == supervisor.MaxDepth+1 {
				m := a.namedBy[w]
				a.problem(m.Decl, m.Path, "keep supervisors shallow; two or three levels do for most projects",
					"supervisor %s is on level %d, counted from the root, expected at most %d",
					Quote(a.name(w)), above, supervisor.MaxDepth)
			}
		}
	}
}

// cycle reports supervisors that contain each other. In members, each is followed by its
// parent.
func (a *assembly) cycle(members []int) {
	first := a.decls[members[0]].Node.Name
	names := []string{first}
	for _, m := range slices.Backward(members[1:]) {
		names = append(names, a.decls[m].Node.Name)
	}
	if len(names) > supervisor.MaxDepth {
		names = append(names[:supervisor.MaxDepth:supervisor.MaxDepth], "...")
	}
	m := a.namedBy[members[0]]
	a.problem(m.Decl, m.Path, "remove one of these children",
		"supervisors contain themselves (%s), expected a tree", Quote(strings.Join(append(names, first), " > ")))
}

// checkChildren checks the children of a supervisor against its settings.
func (a *assembly) checkChildren(decl int, n *Node) {
	for _, i := range a.childrenOf(decl) {
		switch d := a.decls[i]; {
		case d.Node != nil && d.Node.Significant:
			a.checker(i).checkSignificant(d.Node.Restart, n.AutoShutdown)
		case d.Agent != nil && d.Agent.Significant:
			a.checker(i).checkSignificant(d.Agent.Restart, n.AutoShutdown)
		}
		a.checkParent(i, n)
	}
	if n.Strategy == supervisor.SimpleOneForOne {
		a.problem(decl, []string{"strategy"}, "list each agent",
			"simple_one_for_one is for pools whose instances a program adds, which a file cannot; expected "+
				"one_for_one, one_for_all or rest_for_one")
	}
}

// checkParent checks the supervisor of an agent that works in runs. The end of a run must not restart
// other agents.
func (a *assembly) checkParent(i int, n *Node) {
	g := a.decls[i].Agent
	if g == nil || n.Strategy != supervisor.OneForAll && n.Strategy != supervisor.RestForOne {
		return
	}
	var field, what string
	switch {
	case g.Aide != nil:
		field, what = "aidefile", "an agent of an "+aidefile.FileName
	case g.Pipeline != nil:
		field, what = "pipeline", "an agent with a pipeline"
	default:
		return
	}
	a.problem(i, []string{field}, "put it below another supervisor", "%s in a supervisor with the strategy %v, "+
		"expected one_for_one: each run of it would restart the others", what, n.Strategy)
}

// childrenOf returns the indices of the children of a declaration, in start order.
func (a *assembly) childrenOf(decl int) []int {
	var children []int
	if decl == Root {
		for i, p := range a.parent {
			if p == Root {
				children = append(children, i)
			}
		}
		return children
	}
	for _, name := range a.decls[decl].Children {
		if c, ok := a.byName[name]; ok && a.parent[c] == decl {
			children = append(children, c)
		}
	}
	return children
}

func (a *assembly) build(decl int) []Child {
	var children []Child
	for _, i := range a.childrenOf(decl) {
		c := a.child(i)
		switch {
		case c.Node != nil:
			c.Node.Children = a.build(i)
		case c.Agent.Pool != nil:
			c = Child{Node: c.Agent.pool()}
		}
		children = append(children, c)
	}
	return children
}

// DidYouMean returns a hint with the candidate nearest to text; "" if none is near.
func DidYouMean(text string, candidates ...string) string {
	if near := suggest.Nearest(text, candidates); near != "" {
		return "did you mean " + Quote(near) + "?"
	}
	return ""
}
