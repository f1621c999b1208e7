package web

// graph is a drawing of tasks and of what they wait for. What waits is to the right of what it waits for.
type graph struct {
	Nodes         []graphNode
	Edges         []graphEdge
	Width, Height int
}

type graphNode struct {
	taskRow
	X, Y int
	Text string
}

type graphEdge struct{ X1, Y1, X2, Y2 int }

const (
	nodeWidth, nodeHeight = 220, 44
	gapX, gapY            = 60, 14
	nodeText              = 28 // characters of a title
)

// drawGraph draws tasks.
func drawGraph(rows []taskRow) graph {
	index := make(map[string]int, len(rows))
	for i, r := range rows {
		index[r.ID] = i
	}
	// The column of a task is one more than the greatest of those that it waits for. A cycle, which tasks do not have,
	// would end the search at the number of tasks.
	columns := make([]int, len(rows))
	for range rows {
		moved := false
		for i, r := range rows {
			for _, id := range before(r) {
				if j, ok := index[id]; ok && columns[i] <= columns[j] && columns[j] < len(rows) {
					columns[i], moved = columns[j]+1, true
				}
			}
		}
		if !moved {
			break
		}
	}
	g := graph{}
	filled := map[int]int{}
	at := func(i int) (x, y int) { return g.Nodes[i].X, g.Nodes[i].Y }
	for i, r := range rows {
		n := graphNode{taskRow: r, X: columns[i] * (nodeWidth + gapX), Y: filled[columns[i]] * (nodeHeight + gapY),
			Text: shorten(r.Title)}
		filled[columns[i]]++
		g.Nodes = append(g.Nodes, n)
		g.Width, g.Height = max(g.Width, n.X+nodeWidth), max(g.Height, n.Y+nodeHeight)
	}
	for i, r := range rows {
		for _, id := range before(r) {
			if j, ok := index[id]; ok {
				x1, y1 := at(j)
				x2, y2 := at(i)
				g.Edges = append(g.Edges, graphEdge{x1 + nodeWidth, y1 + nodeHeight/2, x2, y2 + nodeHeight/2})
			}
		}
	}
	return g
}

// before returns what a task waits for, or has waited for.
func before(r taskRow) []string {
	all := r.DependsOn
	for _, id := range r.WaitsFor {
		all = append(all[:len(all):len(all)], id)
	}
	seen := map[string]bool{}
	unique := all[:0:0]
	for _, id := range all {
		if !seen[id] {
			seen[id] = true
			unique = append(unique, id)
		}
	}
	return unique
}

// shorten cuts a title to what fits its node.
func shorten(title string) string {
	if runes := []rune(title); len(runes) > nodeText {
		return string(runes[:nodeText-1]) + "…"
	}
	return title
}
