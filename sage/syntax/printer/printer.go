// Package printer prints Sage programs in canonical form.
package printer

import (
	"slices"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
)

// Format returns the text of a file in canonical form: four spaces per level, lines of at most 100
// characters where they can be broken, no consecutive empty lines. It keeps every comment and the
// empty lines between statements. For a file with errors the text is "" and the diagnostics explain
// why.
func Format(file *source.File) (string, []diag.Diagnostic) {
	f, diagnostics := parser.Parse(file)
	if diag.HasErrors(diagnostics) {
		return "", diagnostics
	}
	// Parsing the output again makes sure that a bug in the printer cannot destroy the user's text.
	// A comment in an unusual place may need several passes to settle.
	formatted := Print(f)
	for range maxPasses {
		again, diagnostics := parser.Parse(source.NewFile(file.Name, formatted))
		if diag.HasErrors(diagnostics) || !syntax.Same(f, again) || !sameComments(f.Comments, again.Comments) {
			break
		}
		next := Print(again)
		if next == formatted {
			return formatted, nil
		}
		formatted = next
	}
	return "", []diag.Diagnostic{{
		Span:    file.Span(0, 0),
		Code:    syntax.CodeFormat,
		Message: "this file cannot be formatted without changing what it means, which is a fault of the formatter",
		Help:    "the file is left as it is; please report it",
	}}
}

// maxPasses bounds how often a file is printed until the result is stable.
const maxPasses = 8

func sameComments(a, b []syntax.Comment) bool {
	texts := func(comments []syntax.Comment) []string {
		t := make([]string, len(comments))
		for i, c := range comments {
			t[i] = c.Text
		}
		slices.Sort(t)
		return t
	}
	return slices.Equal(texts(a), texts(b))
}

// Print returns the text of a tree. A tree that was not parsed must have a ParenExpr wherever
// parentheses are needed.
func Print(f *syntax.File) string {
	p := printer{attachment: attach(f)}
	text := render(p.file(f))
	if text != "" {
		text += "\n"
	}
	return text
}

type printer struct {
	*attachment
}

// with adds the comments of a node to its doc.
func (p *printer) with(n syntax.Node, d *doc) *doc {
	found := p.notes[n]
	if found == nil {
		return d
	}
	var parts []*doc
	for i, c := range found.leading {
		next := n.Extent().Start
		if i+1 < len(found.leading) {
			next = found.leading[i+1].Start
		}
		gap := hard
		if lineEndsBefore(p.text, next) > 1 {
			gap = empty
		}
		parts = append(parts, fresh, text(c.Text), gap)
	}
	parts = append(append(parts, p.inner(n)...), d)
	return concat(append(parts, p.after(n)...)...)
}

// inner returns the comments in a node before its parts, and removes them. A caller with a better
// place for them than before the node takes them first.
func (p *printer) inner(n syntax.Node) []*doc {
	found := p.notes[n]
	if found == nil {
		return nil
	}
	var parts []*doc
	for i, c := range found.inner {
		s := p.suffix(c)
		s.blank = s.blank && i > 0
		parts = append(parts, s)
	}
	found.inner = nil
	return parts
}

// after returns the comments after a node.
func (p *printer) after(n syntax.Node) []*doc {
	return docsOf(p.comments(n).trailing, p.suffix)
}

func (p *printer) suffix(c syntax.Comment) *doc {
	ends := lineEndsBefore(p.text, c.Start)
	return &doc{kind: suffixDoc, text: c.Text, own: ends > 0, blank: ends > 1, forced: true}
}

// startOf returns the start of a node including its leading comments.
func (p *printer) startOf(n syntax.Node) int32 {
	if leading := p.comments(n).leading; len(leading) > 0 {
		return leading[0].Start
	}
	return n.Extent().Start
}

// blankLineBefore reports whether an empty line precedes a node.
func (p *printer) blankLineBefore(n syntax.Node) bool {
	return n.Extent().Valid() && lineEndsBefore(p.text, p.startOf(n)) > 1
}

// startsLine reports whether a node is the first on its line.
func (p *printer) startsLine(n syntax.Node) bool {
	return n.Extent().Valid() && lineEndsBefore(p.text, p.startOf(n)) > 0
}

// lines prints docs of nodes on lines of their own. It keeps the empty lines between them and adds
// those that apart asks for.
func (p *printer) lines(nodes []syntax.Node, docs []*doc, apart func(i int) bool) *doc {
	var parts []*doc
	for i, d := range docs {
		switch {
		case i == 0:
		case p.blankLineBefore(nodes[i]) || apart != nil && apart(i):
			parts = append(parts, empty)
		default:
			parts = append(parts, hard)
		}
		parts = append(parts, d)
	}
	return concat(parts...)
}

// body prints lines in braces.
func (p *printer) body(n syntax.Node, nodes []syntax.Node, docs []*doc, apart func(i int) bool) *doc {
	inner := p.inner(n)
	if len(docs) == 0 {
		return emptyList("{", inner, "}")
	}
	return concat(text("{"), indent(concat(inner...), hard, p.lines(nodes, docs, apart)), hard, text("}"))
}

// braces prints a list in braces. It is broken if its first element starts a line in the source, or
// if it does not fit. end follows each element of a broken list; if it is "", only a list on one
// line has commas.
func (p *printer) braces(n syntax.Node, nodes []syntax.Node, docs []*doc, end string) *doc {
	inner := p.inner(n)
	if len(docs) == 0 {
		return emptyList("{", inner, "}")
	}
	separator := text(end)
	if end == "" {
		separator = &doc{kind: flatOnlyDoc, text: ","}
	}
	var parts []*doc
	for i, d := range docs {
		if i > 0 {
			parts = append(parts, separator)
			if p.blankLineBefore(nodes[i]) {
				parts = append(parts, empty)
			} else {
				parts = append(parts, line)
			}
		}
		parts = append(parts, d)
	}
	if end != "" {
		parts = append(parts, ifBroken(end))
	}
	g := group(text("{"), indent(concat(inner...), line, concat(parts...)), line, text("}"))
	g.forced = g.forced || p.startsLine(nodes[0])
	return g
}

// list prints a list in brackets, broken if it does not fit.
func (p *printer) list(n syntax.Node, open string, docs []*doc, shut string) *doc {
	var inner []*doc
	if n != nil {
		inner = p.inner(n)
	}
	if len(docs) == 0 {
		return emptyList(open, inner, shut)
	}
	return group(text(open), indent(concat(inner...), soft, commas(docs)), ifBroken(","), soft, text(shut))
}

// emptyList prints brackets with nothing but comments inside.
func emptyList(open string, inner []*doc, shut string) *doc {
	if len(inner) == 0 {
		return text(open + shut)
	}
	return concat(text(open), indent(inner...), hard, text(shut))
}

// join puts the separators between docs.
func join(docs []*doc, between ...*doc) *doc {
	var parts []*doc
	for i, d := range docs {
		if i > 0 {
			parts = append(parts, between...)
		}
		parts = append(parts, d)
	}
	return concat(parts...)
}

// commas separates docs by commas, on one line or on one line each.
func commas(docs []*doc) *doc { return join(docs, text(","), line) }

func (p *printer) name(id *syntax.Ident) *doc {
	return p.with(id, text(id.Name))
}

// path prints a path in an expression.
func (p *printer) path(path *syntax.Path) *doc { return p.segments(path, "::", "::<") }

// segments prints a path with this separator, and type arguments that start with open.
func (p *printer) segments(path *syntax.Path, separator, open string) *doc {
	docs := docsOf(path.Segments, func(s syntax.Segment) *doc {
		if s.Args == nil {
			return p.name(s.Name)
		}
		return concat(p.name(s.Name), angles(open, docsOf(s.Args, p.typ)))
	})
	return p.with(path, join(docs, text(separator)))
}

// angles prints a list in angle brackets, which never has a trailing comma.
func angles(open string, docs []*doc) *doc {
	return group(text(open), indent(soft, commas(docs)), soft, text(">"))
}

func (p *printer) typ(t syntax.Type) *doc {
	switch t := t.(type) {
	case *syntax.NamedType:
		return p.with(t, p.segments(t.Name, "::", "<"))
	case *syntax.TupleType:
		return p.with(t, p.list(t, "(", docsOf(t.Elems, p.typ), ")"))
	case *syntax.FuncType:
		d := p.list(t, "Fn(", docsOf(t.Params, p.typ), ")")
		if t.Result != nil {
			d = concat(d, text(" -> "), p.typ(t.Result))
		}
		return p.with(t, d)
	}
	return p.with(t, text(t.Extent().Source()))
}

func (p *printer) pattern(n syntax.Pattern) *doc {
	switch n := n.(type) {
	case *syntax.WildcardPat:
		return p.with(n, text("_"))
	case *syntax.BindPat:
		return p.with(n, p.name(n.Name))
	case *syntax.LiteralPat:
		return p.with(n, p.expr(n.Value))
	case *syntax.TuplePat:
		return p.with(n, p.list(n, "(", docsOf(n.Elems, p.pattern), ")"))
	case *syntax.VariantPat:
		return p.with(n, p.variantPat(n))
	}
	return p.with(n, text(n.Extent().Source()))
}

func (p *printer) variantPat(n *syntax.VariantPat) *doc {
	d := p.path(n.Name)
	if n.Dotted {
		d = p.segments(n.Name, ".", "::<")
	}
	if n.Args == nil {
		return d
	}
	return concat(d, p.list(n, "(", docsOf(n.Args, p.pattern), ")"))
}

func docsOf[T any](nodes []T, of func(T) *doc) []*doc {
	docs := make([]*doc, len(nodes))
	for i, n := range nodes {
		docs[i] = of(n)
	}
	return docs
}

func nodesOf[T syntax.Node](nodes []T) []syntax.Node {
	all := make([]syntax.Node, len(nodes))
	for i, n := range nodes {
		all[i] = n
	}
	return all
}
