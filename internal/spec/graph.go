package spec

import "slices"

// element is an agent or supervisor in a list of them, as far as order matters.
type element struct {
	agent  bool
	pool   bool  // which has agents in it sooner or later
	parent int   // index of its supervisor; Root for the root
	after  int   // index of the sibling that must be ready before it; Root for none
	needs  []int // indices of what it depends on
}

// graph says for each vertex which others it waits for. Two vertices stand for
// each element: that it may begin, and that it is ready. So it has as many edges
// as the file has lines, where a graph of agents that depend on agents would
// have as many as a product of the sizes of two supervisors.
type graph [][]int

func begin(element int) int { return 2 * element }
func ready(element int) int { return 2*element + 1 }

func newGraph(elements []element) graph {
	g := make(graph, 2*len(elements))
	wait := func(v, w int) { g[v] = append(g[v], w) }
	full := make([]bool, len(elements)) // there are agents in it; what is empty is always ready, and delays nothing
	for i, e := range elements {
		for j := i; (e.agent || e.pool) && j != Root && !full[j]; j = elements[j].parent {
			full[j] = true
		}
	}
	for i, e := range elements {
		for _, n := range e.needs {
			wait(begin(i), ready(n))
		}
		after := e.after
		for after != Root && !full[after] {
			after = elements[after].after
		}
		if after != Root {
			wait(begin(i), ready(after))
		}
		if full[i] {
			wait(ready(i), begin(i))
		}
		if e.parent != Root {
			wait(begin(i), begin(e.parent))
			wait(ready(e.parent), ready(i))
		}
	}
	return g
}

// sequence returns an order of all vertices, each after those that it waits for.
// What is in a cycle is missing.
func (g graph) sequence() []int {
	waiters := make([][]int, len(g)) // by what waits for it
	pending := make([]int, len(g))   // how many it still waits for
	sequence := make([]int, 0, len(g))
	for v, waits := range g {
		pending[v] = len(waits)
		if len(waits) == 0 {
			sequence = append(sequence, v)
		}
		for _, w := range waits {
			waiters[w] = append(waiters[w], v)
		}
	}
	for i := 0; i < len(sequence); i++ {
		for _, v := range waiters[sequence[i]] {
			if pending[v]--; pending[v] == 0 {
				sequence = append(sequence, v)
			}
		}
	}
	return sequence
}

// cycle returns a way along what waits for what that ends where it began, without
// the last step, and as short as can be from there; nil if there is none.
func (g graph) cycle() []int {
	sorted := make([]bool, len(g))
	for _, v := range g.sequence() {
		sorted[v] = true
	}
	at := slices.Index(sorted, false)
	if at < 0 {
		return nil
	}
	// Whatever is not sorted waits for something that is not, so that this walk
	// has no end: it has come into a cycle when it is somewhere again.
	for visited := make(map[int]bool); !visited[at]; {
		visited[at] = true
		at = g[at][slices.IndexFunc(g[at], func(w int) bool { return !sorted[w] })]
	}
	from := make(map[int]int) // the shortest ways from there
	for queue := []int{at}; ; queue = queue[1:] {
		v := queue[0]
		for _, w := range g[v] {
			if w == at {
				path := []int{v}
				for ; v != at; v = from[v] {
					path = append(path, from[v])
				}
				slices.Reverse(path)
				return path
			}
			if _, seen := from[w]; !seen {
				from[w] = v
				queue = append(queue, w)
			}
		}
	}
}

// without removes an edge.
func (g graph) without(v, w int) {
	g[v] = slices.DeleteFunc(g[v], func(x int) bool { return x == w })
}
