// Package syntaxtest generates random Sage programs for tests. The programs are syntactically valid
// but meaningless.
package syntaxtest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
	"github.com/coppice-dev/coppice/sage/syntax/printer"
)

// File draws a tree. It has no spans, and has all the parentheses that it needs to be printed.
func File() *rapid.Generator[*syntax.File] {
	return rapid.Custom(func(t *rapid.T) *syntax.File {
		g := gen{t}
		return &syntax.File{Decls: some(g, 0, 5, g.decl)}
	})
}

// Text draws the text of a program with white space, line ends and comments in all places where
// they are allowed.
func Text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return Scatter(t, printer.Print(File().Draw(t, "file")))
	})
}

// Scatter inserts white space and comments between the tokens of a valid program.
func Scatter(t *rapid.T, text string) string {
	tokens, _, _ := parser.Scan(source.NewFile("", text))
	var b strings.Builder
	n := 0
	for i, token := range tokens {
		gap := ""
		if i > 0 {
			gap = text[tokens[i-1].End:token.Start]
		}
		switch rapid.IntRange(0, 15).Draw(t, "gap") {
		case 0:
			gap += fmt.Sprintf(" // comment %d\n", n)
			n++
		case 1:
			gap += fmt.Sprintf("\n\t// comment %d\n\n", n)
			n++
		case 2:
			gap += fmt.Sprintf("\n\n// comment %d \n// and %d\n ", n, n)
			n++
		case 3:
			if breakable(token.Kind) {
				gap += "\n"
			}
		case 4:
			if breakable(token.Kind) {
				gap += "\r\n  \n"
			}
		case 5:
			gap += "  "
		case 6:
			if strings.TrimSpace(gap) == "" && !strings.Contains(gap, "\n") && !joined(tokens, i) {
				gap = ""
			}
		}
		if strings.Contains(gap, "//") && !breakable(token.Kind) {
			gap = " "
		}
		b.WriteString(gap)
		b.WriteString(text[token.Start:token.End])
	}
	return b.String()
}

// breakable reports whether a line end may precede a token. It may not precede one that could start
// a statement of its own.
func breakable(k syntax.Kind) bool {
	return k != syntax.LBrace && k != syntax.LBracket && k != syntax.LParen
}

// joined reports whether tokens i-1 and i would merge without white space.
func joined(tokens []syntax.Token, i int) bool {
	if i == 0 {
		return false
	}
	word := func(k syntax.Kind) bool { return k.IsWord() || k == syntax.Int || k == syntax.Float }
	a, b := tokens[i-1].Kind, tokens[i].Kind
	return word(a) && word(b) || a.IsOperator() && b.IsOperator() || a == syntax.Dot || b == syntax.Dot
}

// gen draws parts of programs. A depth parameter is the nesting that is still allowed.
type gen struct{ t *rapid.T }

func (g gen) n(least, most int) int { return rapid.IntRange(least, most).Draw(g.t, "n") }

func (g gen) chance(in int) bool { return g.n(1, in) == 1 }

func some[T any](g gen, least, most int, draw func() T) []T {
	n := g.n(least, most)
	var all []T
	for range n {
		all = append(all, draw())
	}
	return all
}

func pick[T any](g gen, of ...T) T { return of[g.n(0, len(of)-1)] }

func (g gen) id(names ...string) *syntax.Ident {
	return &syntax.Ident{Name: pick(g, names...)}
}

func (g gen) lower() *syntax.Ident {
	return g.id("x", "count", "message", "a_rather_long_name_of_a_variable", "agent", "e", "test", "start", "_y1",
		"error", "run", "mut", "not", "on")
}

func (g gen) upper() *syntax.Ident {
	return g.id("T", "Worker", "Result", "Some", "AVeryLongNameOfATypeThatFillsTheLine", "Point", "MAX_SIZE")
}

// field draws a name where all keywords are allowed.
func (g gen) field() *syntax.Ident {
	return g.id("x", "value", "match", "fn", "restart", "if", "count", "handler", "self", "retry")
}

func (g gen) path() *syntax.Path {
	p := &syntax.Path{Segments: []syntax.Segment{{Name: g.upper()}}}
	if g.chance(4) {
		p.Segments = append([]syntax.Segment{{Name: g.lower()}}, p.Segments...)
	}
	return p
}

func (g gen) typ(depth int) syntax.Type {
	if depth <= 0 {
		return &syntax.NamedType{Name: &syntax.Path{Segments: []syntax.Segment{{Name: g.id("Int", "String", "T",
			"Worker")}}}}
	}
	switch g.n(0, 4) {
	case 0:
		p := g.path()
		p.Segments[len(p.Segments)-1].Args = some(g, 1, 2, func() syntax.Type { return g.typ(depth - 1) })
		return &syntax.NamedType{Name: p}
	case 1:
		n := pick(g, 0, 2, 3)
		return &syntax.TupleType{Elems: some(g, n, n, func() syntax.Type { return g.typ(depth - 1) })}
	case 2:
		f := &syntax.FuncType{Params: some(g, 0, 2, func() syntax.Type { return g.typ(depth - 1) })}
		if !g.chance(4) {
			f.Result = g.typ(depth - 1)
		}
		return f
	}
	return g.typ(0)
}

func (g gen) pattern(depth int) syntax.Pattern {
	switch g.n(0, 6) {
	case 0:
		return &syntax.WildcardPat{}
	case 1, 2:
		return &syntax.BindPat{Name: g.lower()}
	case 3:
		return &syntax.LiteralPat{Value: g.literal()}
	case 4:
		if depth > 0 {
			n := pick(g, 0, 2, 3)
			return &syntax.TuplePat{Elems: some(g, n, n, func() syntax.Pattern { return g.pattern(depth - 1) })}
		}
	}
	v := &syntax.VariantPat{Name: g.path()}
	if depth > 0 {
		v.Args = some(g, 0, 2, func() syntax.Pattern { return g.pattern(depth - 1) })
	}
	v.Dotted = len(v.Name.Segments) > 1 && g.chance(2)
	return v
}

func (g gen) literal() syntax.Expr {
	switch g.n(0, 3) {
	case 0:
		return &syntax.IntLit{Value: rapid.Int64().Draw(g.t, "int")}
	case 1:
		return &syntax.FloatLit{Text: pick(g, "1.5", "-0.25", "300.0"), Value: 0}
	case 2:
		return &syntax.BoolLit{Value: g.chance(2)}
	}
	return g.str()
}

func (g gen) str() *syntax.StringLit {
	if g.chance(3) {
		return &syntax.StringLit{Text: pick(g, `'raw {x} "quoted"'`, "\"two\nlines  \"", `"\x1b[0m\u{1f33f}"`,
			`"{\"json\": 1}"`, `""`)}
	}
	return &syntax.StringLit{Value: rapid.StringN(1, 12, -1).Draw(g.t, "string")}
}
