package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/supervisor"
)

const (
	maxCycles = 20 // number of reported cycles
	maxSteps  = 32 // number of steps in the description of a cycle
)

// checkDependencies reports dependencies that are unknown or circular. nested reports that no
// supervisor contains itself; otherwise there is no order to check.
func (a *assembly) checkDependencies(root *Node, nested bool) {
	var elements []element
	if nested {
		elements = a.elements(root)
	}
	unknown := 0
	for i := range a.decls {
		seen := make(map[string]bool)
		for n, name := range a.child(i).DependsOn() {
			at := []string{"depends_on", strconv.Itoa(n)}
			on, known := a.byName[name]
			switch {
			case !known || name == "":
				unknown++
				a.unknownDependency(i, at, name, unknown)
			case seen[name]:
				a.problem(i, at, "remove one of the two", "the dependency %s is listed twice, expected once",
					Quote(name))
			case on == i:
				a.problem(i, at, "remove it", "%s depends on itself, expected others", Quote(name))
			case !nested:
			case a.contains(on, i):
				a.problem(i, at, "depend on its siblings instead",
					"%s depends on %s, which it is in, expected something else", Quote(a.name(i)), Quote(name))
			case a.contains(i, on):
				a.problem(i, at, "let its other children depend on that",
					"%s depends on %s, which is in it, expected something else", Quote(a.name(i)), Quote(name))
			default:
				elements[i].needs = append(elements[i].needs, on)
			}
			seen[name] = true
		}
	}
	if nested {
		a.checkCycles(elements)
	}
}

func (a *assembly) unknownDependency(i int, at []string, name string, count int) {
	hint := ""
	if last := name[strings.LastIndexByte(name, '/')+1:]; last != name {
		if _, known := a.byName[last]; known {
			hint = "write " + Quote(last) + ": names are unique, and paths change"
		}
	}
	if hint == "" && count <= maxSuggestions {
		hint = DidYouMean(name, a.names()...)
	}
	a.problem(i, at, hint, "unknown dependency %s, expected the name of an agent or supervisor", Quote(name))
}

func (a *assembly) child(i int) Child { return Child{a.decls[i].Node, a.decls[i].Agent} }

func (a *assembly) name(i int) string { return a.child(i).Name() }

// names returns the names of all declarations.
func (a *assembly) names() []string {
	names := make([]string, len(a.decls))
	for i := range names {
		names[i] = a.name(i)
	}
	return names
}

// contains reports whether inner is in the supervisor outer, at any depth.
func (a *assembly) contains(outer, inner int) bool {
	for at := a.parent[inner]; at != Root; at = a.parent[at] {
		if at == outer {
			return true
		}
	}
	return false
}

// elements returns the declarations with the order in which supervisors start them, but
// without their dependencies.
func (a *assembly) elements(root *Node) []element {
	elements := make([]element, len(a.decls))
	for i, d := range a.decls {
		elements[i] = element{agent: d.Agent != nil, parent: a.parent[i], after: Root}
	}
	chain := func(decl int, n *Node) { // these strategies start children one after the other
		if n == nil || n.Strategy != supervisor.RestForOne && n.Strategy != supervisor.OneForAll {
			return
		}
		last := Root
		for _, c := range a.childrenOf(decl) {
			elements[c].after, last = last, c
		}
	}
	chain(Root, root)
	for i, d := range a.decls {
		chain(i, d.Node)
	}
	return elements
}

// checkCycles reports circular dependencies.
func (a *assembly) checkCycles(elements []element) {
	g := newGraph(elements)
	for range maxCycles {
		cycle := g.cycle()
		if cycle == nil {
			return
		}
		// Containment alone has no cycle, so this one has a dependency. It is reported at the
		// first one in the file.
		first := -1
		for k, v := range cycle {
			if _, by := step(elements, v, cycle[(k+1)%len(cycle)]); by == depends && (first < 0 || v < cycle[first]) {
				first = k
			}
		}
		cycle = append(slices.Clone(cycle[first:]), cycle[:first]...)
		i, on := cycle[0]/2, cycle[1%len(cycle)]/2
		n := slices.Index(a.child(i).DependsOn(), a.name(on))
		hint := "remove one of these dependencies"
		if later, before := a.reversedSiblings(elements, cycle); later != "" {
			hint = fmt.Sprintf("list %s before %s, or remove one of these dependencies", later, before)
		}
		a.problem(i, []string{"depends_on", strconv.Itoa(n)}, hint,
			"dependencies form a cycle (%s), expected an order", a.describeCycle(elements, cycle))
		g.without(begin(i), ready(on))
	}
}

// edge is the reason why a vertex of a graph waits for another one.
type edge uint8

const (
	itself   edge = iota // ready waits for begin
	depends              // depends_on
	follows              // the next child of a supervisor that starts them in order
	contains             // a supervisor is ready when its children are
	isIn                 // a child begins after its supervisor
)

// step returns the element of w, and the edge from v to w.
func step(elements []element, v, w int) (to int, by edge) {
	i, j := v/2, w/2
	switch {
	case i == j:
		return j, itself
	case v == ready(i):
		return j, contains
	case w == begin(j):
		return j, isIn
	case slices.Contains(elements[i].needs, j):
		return j, depends
	}
	return j, follows
}

// reversedSiblings returns two children of a supervisor whose order causes a cycle: later must
// be listed before the other. It returns "" unless there is exactly one such pair.
func (a *assembly) reversedSiblings(elements []element, cycle []int) (later, before string) {
	for k, v := range cycle {
		switch to, by := step(elements, v, cycle[(k+1)%len(cycle)]); {
		case by != follows:
		case later != "":
			return "", ""
		default:
			later, before = Quote(a.name(v/2)), Quote(a.name(to))
		}
	}
	return later, before
}

// describeCycle returns a description of a cycle.
func (a *assembly) describeCycle(elements []element, cycle []int) string {
	var b strings.Builder
	b.WriteString(Quote(a.name(cycle[0] / 2)))
	steps := 0
	for k, v := range cycle {
		to, by := step(elements, v, cycle[(k+1)%len(cycle)])
		if by == itself {
			continue
		}
		if steps++; steps > maxSteps {
			fmt.Fprintf(&b, ", and so on")
			break
		}
		if steps > 1 {
			b.WriteString(", which")
		}
		switch name := Quote(a.name(to)); by {
		case depends:
			b.WriteString(" depends on " + name)
		case follows:
			b.WriteString(" comes after " + name + " in a " + a.strategyOver(cycle[k]/2).String() + " supervisor")
		case contains:
			b.WriteString(" contains " + name)
		case isIn:
			b.WriteString(" is in " + name)
		}
	}
	return b.String()
}

// strategyOver returns the strategy of the parent of a declaration.
func (a *assembly) strategyOver(i int) supervisor.Strategy {
	if p := a.parent[i]; p != Root {
		return a.decls[p].Node.Strategy
	}
	return a.root
}
