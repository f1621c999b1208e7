package checktest

import (
	"fmt"
	"strings"
)

// expr draws an expression of a type.
func (g *gen) expr(t typ, depth int) string {
	var known []string
	for _, v := range g.vars {
		if v.typ.String() == t.String() {
			known = append(known, v.name)
		}
	}
	if len(known) > 0 && g.n(2) > 0 {
		return pick(g, known...)
	}
	if depth == 0 {
		return g.literal(t, 0)
	}
	switch g.n(12) {
	case 0:
		return fmt.Sprintf("(if %s { %s } else { %s })", g.expr(boolean, depth-1), g.expr(t, depth-1),
			g.expr(t, depth-1))
	case 1:
		return fmt.Sprintf("id(%s)", g.expr(t, depth-1))
	case 2:
		return fmt.Sprintf("unwrap_or(%s, %s)", g.expr(typ{"Option", []typ{t}}, depth-1), g.expr(t, depth-1))
	case 3:
		v := g.name()
		body := g.with(variable{v, t}, func() string { return g.expr(t, depth-1) })
		return fmt.Sprintf("twice(|%s: %s| %s, %s)", v, t, body, g.expr(t, depth-1))
	case 4:
		return fmt.Sprintf("(%s, %s).%d", g.expr(t, depth-1), g.expr(t, depth-1), g.n(1))
	case 5:
		return fmt.Sprintf("Box { label: %s, value: %s }.value", g.expr(text, depth-1), g.expr(t, depth-1))
	case 6:
		v := g.name()
		some := g.with(variable{v, t}, func() string { return g.expr(t, depth-1) })
		return fmt.Sprintf("(match %s { Some(%s) => %s, None => %s })", g.typed(typ{"Option", []typ{t}}, depth-1), v,
			some, g.expr(t, depth-1))
	case 7:
		for _, f := range g.funcs {
			if f.result.String() == t.String() {
				return g.callOf(f, depth-1)
			}
		}
	case 8, 9, 10:
		return g.operation(t, depth)
	}
	return g.literal(t, depth-1)
}

// typed draws an expression that states its own type, for places that expect none.
func (g *gen) typed(t typ, depth int) string {
	return fmt.Sprintf("id::<%s>(%s)", t, g.expr(t, depth))
}

// with draws an expression with one more variable in scope.
func (g *gen) with(v variable, make func() string) string {
	g.vars = append(g.vars, v)
	s := make()
	g.vars = g.vars[:len(g.vars)-1]
	return s
}

func (g *gen) callOf(f function, depth int) string {
	var args []string
	for _, p := range f.params {
		args = append(args, g.expr(p, depth))
	}
	return f.name + "(" + strings.Join(args, ", ") + ")"
}

// operation draws an expression specific to a type.
func (g *gen) operation(t typ, depth int) string {
	e := func(t typ) string { return g.expr(t, depth-1) }
	list := func(t typ) typ { return typ{"List", []typ{t}} }
	switch t.name {
	case "Int":
		return pick(g,
			func() string {
				return fmt.Sprintf("(%s %s %s)", e(integer), pick(g, "+", "-", "*", "/", "%"), e(integer))
			},
			func() string { return "len(" + e(list(g.typ(0))) + ")" },
			func() string { return e(text) + ".len()" },
			func() string { return "sum(" + e(list(integer)) + ")" },
			func() string { return "reduce(" + e(list(text)) + ", 0, |a, s: String| a + len(s))" },
			func() string { return "(checked(" + e(integer) + ") catch { " + e(integer) + " })" },
			func() string { return "(parse_int(" + e(text) + ") catch(e) { len(e.message) })" },
			func() string { return "max(" + e(integer) + ", LIMIT)" },
			func() string { return "id(Point { x: " + e(integer) + ", y: 1 }).x" },
		)()
	case "Float":
		return fmt.Sprintf("(%s %s %s)", e(float), pick(g, "+", "-", "*", "/"), e(float))
	case "Bool":
		x := g.typ(1)
		return pick(g,
			func() string { return fmt.Sprintf("(%s %s %s)", e(boolean), pick(g, "&&", "||"), e(boolean)) },
			func() string { return fmt.Sprintf("(%s %s %s)", e(integer), pick(g, "<", ">=", "!="), e(integer)) },
			func() string { return fmt.Sprintf("(%s < %s)", e(text), e(text)) },
			func() string { return fmt.Sprintf("same_type(%s, %s)", e(x), e(x)) },
			func() string { return "!" + e(boolean) },
			func() string { return "is_some(" + e(typ{"Option", []typ{x}}) + ")" },
			func() string { return "contains(" + e(list(x)) + ", " + e(x) + ")" },
		)()
	case "String":
		x := g.typ(1)
		return pick(g,
			func() string { return "(" + e(text) + " ++ " + e(text) + ")" },
			func() string { return `"<{` + e(x) + `}>"` },
			func() string { return "str(" + e(x) + ")" },
			func() string { return "join(" + e(list(text)) + `, ", ")` },
			func() string { return "json_stringify(" + e(x) + ")" },
			func() string { return "to_upper(" + e(text) + ")" },
		)()
	case "List":
		of := t.parts[0]
		v, from := g.name(), g.typ(0)
		return pick(g,
			func() string {
				body := g.with(variable{v, from}, func() string { return g.expr(of, depth-1) })
				return fmt.Sprintf("map(%s, |%s: %s| %s)", e(list(from)), v, from, body)
			},
			func() string {
				body := g.with(variable{v, of}, func() string { return g.expr(boolean, depth-1) })
				return fmt.Sprintf("%s.filter(|%s: %s| %s)", e(t), v, of, body)
			},
			func() string { return "(" + e(t) + " ++ " + e(t) + ")" },
			func() string { return "push(" + e(t) + ", " + e(of) + ")" },
			func() string { return "reverse(" + e(t) + ")" },
			func() string { return "map_values({" + e(text) + ": " + e(of) + "})" },
		)()
	case "Option":
		of := t.parts[0]
		return pick(g,
			func() string { return "first(" + e(list(of)) + ")" },
			func() string { return "get({1: " + e(of) + "}, " + e(integer) + ")" },
			func() string { return "ok(" + e(typ{"Result", []typ{of, text}}) + ")" },
			func() string { return "find(" + e(list(of)) + ", |_| " + e(boolean) + ")" },
		)()
	}
	return g.literal(t, depth-1)
}

// literal draws a literal of a type.
func (g *gen) literal(t typ, depth int) string {
	part := func(i int) string { return g.expr(t.parts[i], max(depth-1, 0)) }
	switch t.name {
	case "Int":
		return pick(g, "0", "1", "-1", "7", "100", "LIMIT")
	case "Float":
		return pick(g, "0.0", "1.5", "-2.25")
	case "Bool":
		return pick(g, "true", "false")
	case "String":
		return pick(g, `""`, `"a"`, `'{b}'`, `"12"`, `"é\n"`)
	case "List":
		return pick(g, func() string { return "[]" }, func() string { return "[" + part(0) + ", " + part(0) + "]" })()
	case "Option":
		return pick(g, func() string { return "None" }, func() string { return "Some(" + part(0) + ")" })()
	case "Result":
		return pick(g, func() string { return "Err(" + part(1) + ")" },
			func() string { return "Result::Ok(" + part(0) + ")" })()
	case "Map":
		return pick(g, func() string { return "({})" },
			func() string { return "({" + part(0) + ": " + part(1) + "})" })()
	case "tuple":
		return "(" + part(0) + ", " + part(1) + ")"
	case "Point":
		return "Point { x: " + g.expr(integer, 0) + ", y: 2 }"
	case "Shape":
		return pick(g, "Empty", "Circle(2.0)", "Shape::Rect(1, LIMIT)")
	case "Box":
		return "Box { value: " + part(0) + `, label: "l" }`
	}
	return pick(g, func() string { return "Leaf" }, func() string { return "Node(" + part(0) + ", [Leaf])" })()
}
