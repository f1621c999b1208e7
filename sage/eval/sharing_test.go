package eval_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
)

// Values are shared and changed in place only if no program can tell. A model that copies every
// value prints the same.
func TestSharingIsInvisible(t *testing.T) {
	compileProgram := compile // t below is rapid's; the program needs that of the test
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		lists := map[string][]int{"l": {1, 2}, "m": {3}, "r.b": {4, 5}, "d[1]": {6}, "self.p": {7, 8}, "self.q": {9}}
		grids := map[string][][]int{"a": {{1}, {2, 3}}, "b": {{4}, {5}}, "self.g": {{6}, {7}}}
		var b, want strings.Builder
		names := func() string {
			return rapid.SampledFrom([]string{"l", "m", "r.b", "d[1]", "self.p", "self.q"}).Draw(t, "list")
		}
		grid := func() string { return rapid.SampledFrom([]string{"a", "b", "self.g"}).Draw(t, "grid") }
		number := func() int { return rapid.IntRange(10, 99).Draw(t, "number") }
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			x, y, g, h, n := names(), names(), grid(), grid(), number()
			i := rapid.IntRange(0, len(grids[g])-1).Draw(t, "row")
			switch rapid.IntRange(0, 12).Draw(t, "step") {
			case 0:
				fmt.Fprintf(&b, "%s = %s;\n", x, y)
				lists[x] = slices.Clone(lists[y])
			case 1:
				fmt.Fprintf(&b, "%s = push(%s, %d);\n", x, x, n)
				lists[x] = append(slices.Clone(lists[x]), n)
			case 2:
				fmt.Fprintf(&b, "%s = push(%s, %d);\n", x, y, n)
				lists[x] = append(slices.Clone(lists[y]), n)
			case 3:
				fmt.Fprintf(&b, "%s[0] = %d;\n", x, n)
				lists[x] = append([]int{n}, lists[x][1:]...)
			case 4:
				fmt.Fprintf(&b, "%s = %s;\n", g, h)
				grids[g] = clone(grids[h])
			case 5:
				fmt.Fprintf(&b, "%s[%d][0] = %d;\n", g, i, n)
				grids[g] = clone(grids[g])
				grids[g][i][0] = n
			case 6:
				fmt.Fprintf(&b, "%s[%d] = %s;\n", g, i, x)
				grids[g] = clone(grids[g])
				grids[g][i] = slices.Clone(lists[x])
			case 7:
				fmt.Fprintf(&b, "%s = %s[%d];\n", x, g, i)
				lists[x] = slices.Clone(grids[g][i])
			case 8:
				fmt.Fprintf(&b, "%s = push(%s, %s);\n", g, h, x)
				grids[g] = append(clone(grids[h]), slices.Clone(lists[x]))
			case 9:
				fmt.Fprintf(&b, "%s = changed(%s, %d);\n", x, y, n)
				lists[x] = append(append([]int{n}, lists[y][1:]...), n)
			case 10:
				fmt.Fprintf(&b, "%s = reverse(take(%s, 2));\n", x, y)
				lists[x] = slices.Clone(lists[y][:min(2, len(lists[y]))])
				slices.Reverse(lists[x])
			case 11:
				fmt.Fprintf(&b, "for row in %s { row[0] = %d; %s[0][0] = row[0]; }\n", g, n, g)
				grids[g] = clone(grids[g])
				grids[g][0][0] = n
			case 12:
				fmt.Fprintf(&b, "%s = concat(%s, %s);\n", x, x, y)
				lists[x] = append(slices.Clone(lists[x]), lists[y]...)
				if len(lists[x]) > 100 {
					fmt.Fprintf(&b, "%s = take(%s, 3);\n", x, x)
					lists[x] = lists[x][:3]
				}
			}
			b.WriteString("print((l, m, r.b, d[1], self.p, self.q, a, b, self.g));\n")
			fmt.Fprintf(&want, "(%s, %s, %s, %s, %s, %s, %s, %s, %s)\n", shown(lists["l"]), shown(lists["m"]), shown(lists["r.b"]), shown(lists["d[1]"]),
				shown(lists["self.p"]), shown(lists["self.q"]), shown(grids["a"]), shown(grids["b"]), shown(grids["self.g"]))
		}
		text := `record R { a: Int, b: List<Int> }
			fn changed(xs: List<Int>, n: Int) -> List<Int> { xs[0] = n; xs = push(xs, n); return xs; }
			agent M { @persistent p: List<Int> q: List<Int> g: List<List<Int>> on start {
			let l = [1, 2]; let m = [3]; let r = R { a: 1, b: [4, 5] }; let d = {1: [6]}; let a = [[1], [2, 3]]; let b = [[4], [5]];
			self.p = [7, 8]; self.q = [9]; self.g = [[6], [7]];
			` + b.String() + "} }\nrun M { q: [], g: [] };"
		var out output
		in := compileProgram(outer, text).New(eval.Options{Output: host.NewOutput(&out, io.Discard)})
		defer in.Close()
		if err := in.Run(outer.Context()); err != nil || out.String() != want.String() {
			t.Fatalf("%v\n%s\nprinted\n%s\nwant\n%s", err, text, out.String(), want.String())
		}
	})
}

func clone(g [][]int) [][]int {
	c := make([][]int, len(g))
	for i := range g {
		c[i] = slices.Clone(g[i])
	}
	return c
}

func shown(v any) string { return strings.ReplaceAll(fmt.Sprint(v), " ", ", ") }
