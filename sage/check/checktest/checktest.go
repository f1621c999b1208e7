// Package checktest generates random valid Sage programs, to test what the checker must accept and
// the evaluator must run. The programs terminate: they have no recursion and only loop over short
// lists.
package checktest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// Program draws the text of a program: functions, an agent Main that calls them and prints their
// results, and run Main. It may fail while it runs, for example by a division by zero, but only
// with errors that Sage defines.
func Program() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		g := &gen{t: t}
		return g.program()
	})
}

const declarations = `enum Shape { Circle(Float), Rect(Int, Int), Empty }
enum Tree<T> { Leaf, Node(T, List<Tree<T>>) }
record Point { x: Int, y: Int }
record Box<T> { value: T, label: String }
const LIMIT: Int = 3 + 4;
fn id<T>(x: T) -> T { x }
fn twice<T>(f: Fn(T) -> T, x: T) -> T { f(f(x)) }
fn same_type<T>(a: T, b: T) -> Bool { a == b }
fn checked(n: Int) -> Int fails { if n > 40 { fail "too large: {n}"; } return n; }
`

// A typ is a type as written. parts are the arguments of List, Option and others.
type typ struct {
	name  string
	parts []typ
}

func (t typ) String() string {
	if len(t.parts) == 0 {
		return t.name
	}
	var parts []string
	for _, p := range t.parts {
		parts = append(parts, p.String())
	}
	switch t.name {
	case "tuple":
		return "(" + strings.Join(parts, ", ") + ")"
	case "Fn":
		return "Fn(" + parts[0] + ") -> " + parts[1]
	}
	return t.name + "<" + strings.Join(parts, ", ") + ">"
}

var (
	integer = typ{name: "Int"}
	float   = typ{name: "Float"}
	boolean = typ{name: "Bool"}
	text    = typ{name: "String"}
)

type variable struct {
	name string
	typ  typ
}

type function struct {
	name   string
	params []typ
	result typ
}

type gen struct {
	t     *rapid.T
	out   strings.Builder
	funcs []function
	vars  []variable
	names int
}

func (g *gen) n(most int) int { return rapid.IntRange(0, most).Draw(g.t, "n") }

func pick[T any](g *gen, of ...T) T { return of[g.n(len(of)-1)] }

func (g *gen) name() string {
	g.names++
	return fmt.Sprintf("v%d", g.names)
}

func (g *gen) typ(depth int) typ {
	if depth == 0 {
		return pick(g, integer, integer, text, boolean, float)
	}
	switch g.n(9) {
	case 0:
		return typ{"List", []typ{g.typ(depth - 1)}}
	case 1:
		return typ{"Option", []typ{g.typ(depth - 1)}}
	case 2:
		return typ{"Map", []typ{pick(g, text, integer), g.typ(depth - 1)}}
	case 3:
		return typ{"tuple", []typ{g.typ(depth - 1), g.typ(depth - 1)}}
	case 4:
		return pick(g, typ{name: "Point"}, typ{name: "Shape"})
	case 5:
		return typ{pick(g, "Box", "Tree"), []typ{g.typ(depth - 1)}}
	case 6:
		return typ{"Result", []typ{g.typ(depth - 1), text}}
	}
	return g.typ(0)
}

func (g *gen) program() string {
	g.out.WriteString(declarations)
	for i := range 1 + g.n(4) {
		f := function{name: fmt.Sprintf("f%d", i), result: g.typ(2)}
		g.vars = nil
		var params []string
		for range g.n(3) {
			p := variable{g.name(), g.typ(2)}
			f.params = append(f.params, p.typ)
			g.vars = append(g.vars, p)
			params = append(params, p.name+": "+p.typ.String())
		}
		fmt.Fprintf(&g.out, "fn %s(%s) -> %s {\n", f.name, strings.Join(params, ", "), f.result)
		g.stmts(2)
		if g.n(1) == 0 {
			fmt.Fprintf(&g.out, "return %s;\n}\n", g.expr(f.result, 2))
		} else {
			fmt.Fprintf(&g.out, "%s\n}\n", g.expr(f.result, 2))
		}
		g.funcs = append(g.funcs, f)
	}
	g.vars = []variable{{"self.count", integer}, {"self.names", typ{"List", []typ{text}}}}
	g.out.WriteString("agent Main {\n@persistent count: Int\n@persistent names: List<String>\non start {\n")
	g.stmts(2)
	for _, f := range g.funcs {
		fmt.Fprintf(&g.out, "print(%s);\n", g.callOf(f, 1))
	}
	fmt.Fprintf(&g.out, "let n = try checked(%s);\nyield(n);\n}\non error(e) { print(e.message); "+
		"yield(-1); }\n}\nrun Main;\n", g.expr(integer, 1))
	return g.out.String()
}

func (g *gen) stmts(depth int) {
	for range g.n(3) {
		g.stmt(depth)
	}
}

// block writes statements in braces, which are a scope of their own.
func (g *gen) block(depth int, declared ...variable) {
	known := len(g.vars)
	g.vars = append(g.vars, declared...)
	g.out.WriteString("{\n")
	g.stmts(depth)
	g.out.WriteString("}\n")
	g.vars = g.vars[:known]
}

func (g *gen) stmt(depth int) {
	switch g.n(8) {
	case 0, 1, 2:
		v := variable{g.name(), g.typ(2)}
		value := g.expr(v.typ, 2)
		fmt.Fprintf(&g.out, "let %s: %s = %s;\n", v.name, v.typ, value)
		g.vars = append(g.vars, v)
	case 3:
		if len(g.vars) > 0 {
			v := g.vars[g.n(len(g.vars)-1)]
			fmt.Fprintf(&g.out, "%s = %s;\n", v.name, g.expr(v.typ, 1))
		}
	case 4:
		for _, v := range g.vars {
			switch v.typ.name {
			case "Int", "Float":
				fmt.Fprintf(&g.out, "%s %s %s;\n", v.name, pick(g, "+=", "-=", "*="), g.expr(v.typ, 1))
				return
			case "Map":
				fmt.Fprintf(&g.out, "map_set(%s, %s, %s);\n", v.name, g.expr(v.typ.parts[0], 0),
					g.expr(v.typ.parts[1], 0))
				return
			case "Point":
				fmt.Fprintf(&g.out, "%s.x = %s;\n", v.name, g.expr(integer, 0))
				return
			}
		}
	case 5:
		fmt.Fprintf(&g.out, "print(%s);\n", g.expr(g.typ(1), 1))
	}
	if depth == 0 {
		return
	}
	switch g.n(6) {
	case 0:
		fmt.Fprintf(&g.out, "if %s ", g.expr(boolean, 1))
		g.block(depth - 1)
		if g.n(1) == 0 {
			g.out.WriteString("else ")
			g.block(depth - 1)
		}
	case 1:
		elem := g.typ(1)
		list := g.typed(typ{"List", []typ{elem}}, 1)
		v := variable{g.name(), elem}
		fmt.Fprintf(&g.out, "for %s in take(%s, 3) ", v.name, list)
		g.block(depth-1, v)
	case 2:
		i := g.name()
		fmt.Fprintf(&g.out, "let %s = 0;\nwhile %s < %d { %s += 1; if %s { %s; }\n", i, i, g.n(3), i,
			g.expr(boolean, 0), pick(g, "break", "continue"))
		g.block(depth - 1)
		g.out.WriteString("}\n")
	case 3:
		v := variable{g.name(), g.typ(1)}
		fmt.Fprintf(&g.out, "match %s { Some(%s) => ", g.typed(typ{"Option", []typ{v.typ}}, 1), v.name)
		g.block(depth-1, v)
		g.out.WriteString("None => ")
		g.block(depth - 1)
		g.out.WriteString("}\n")
	}
}
