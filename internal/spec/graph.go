package spec

import "slices"

// element holds the properties of an agent or supervisor that determine its order.
type element struct {
	agent  bool
	pool   bool  // it may get agents later
	parent int   // index of its supervisor; Root for the root
	after  int   // index of the sibling that must be ready before it; Root for none
	needs  []int // indices of its dependencies
}

// graph holds the vertices that each vertex waits for. Each element has two vertices: it may
// begin, and it is ready. The number of edges is linear in the size of the file. A graph of
// agents that depend on agents could have the product of the sizes of two supervisors.
type graph [][]int

func begin(element int) int { return 2 * element }
func ready(element int) int { return 2*element + 1 }

func newGraph(elements []element) graph {
	g := make(graph, 2*len(elements))
	wait := func(v, w int) { g[v] = append(g[v], w) }
	full := make([]bool, len(elements)) // whether it contains agents; an empty supervisor is always ready
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

// sequence returns the vertices in topological order, without those that wait for a cycle.
func (g graph) sequence() []int {
	waiters := make([][]int, len(g)) // the vertices that wait for it
	pending := make([]int, len(g))   // the number of vertices that it still waits for
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

// cycle returns the vertices of a cycle, the shortest one through its first vertex; nil if
// there is none.
func (g graph) cycle() []int {
	sorted := make([]bool, len(g))
	for _, v := range g.sequence() {
		sorted[v] = true
	}
	at := slices.Index(sorted, false)
	if at < 0 {
		return nil
	}
	// Each unsorted vertex waits for another unsorted one. The walk has entered a cycle when it
	// visits a vertex twice.
	for visited := make(map[int]bool); !visited[at]; {
		visited[at] = true
		at = g[at][slices.IndexFunc(g[at], func(w int) bool { return !sorted[w] })]
	}
	from := make(map[int]int) // predecessors on the shortest paths from at
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
