// Package printer prints Sage programs in their canonical form.
package printer

import (
	"slices"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
)

// Format returns the text of a file in its canonical form:
// four blanks a level, lines of at most 100 characters where they can be
// broken, at most one empty line in a row. It keeps each comment and each empty
// line between statements. A file that has errors is not formatted: then the
// text is "" and the diagnostics say why.
func Format(file *source.File) (string, []diag.Diagnostic) {
	f, diagnostics := parser.Parse(file)
	if diag.HasErrors(diagnostics) {
		return "", diagnostics
	}
	// What is printed is read again: if the printer were wrong, the
	// text of the person would be lost. A comment in
	// an unusual place may find its last one only when it is printed again.
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

// maxPasses bounds how often a file is printed until nothing changes.
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

// Print returns the text of a tree. A tree that was not parsed has to have a
// ParenExpr wherever parentheses are needed.
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

// with puts the comments of a node around its doc.
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

// inner are the comments in a node before its parts, once: a
// caller that has a better place for them than before the node takes them there.
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

// after are the comments behind a node.
func (p *printer) after(n syntax.Node) []*doc {
	if found := p.notes[n]; found != nil {
		return docsOf(found.trailing, p.suffix)
	}
	return nil
}

func (p *printer) suffix(c syntax.Comment) *doc {
	ends := lineEndsBefore(p.text, c.Start)
	return &doc{kind: suffixDoc, text: c.Text, own: ends > 0, blank: ends > 1, forced: true}
}

// startOf returns where a node begins with its comments.
func (p *printer) startOf(n syntax.Node) int32 {
	if found := p.notes[n]; found != nil && len(found.leading) > 0 {
		return found.leading[0].Start
	}
	return n.Extent().Start
}

// blankLineBefore reports whether an empty line stands before a node.
func (p *printer) blankLineBefore(n syntax.Node) bool {
	return n.Extent().Valid() && lineEndsBefore(p.text, p.startOf(n)) > 1
}

// startsLine reports whether a node is the first in its line.
func (p *printer) startsLine(n syntax.Node) bool {
	return n.Extent().Valid() && lineEndsBefore(p.text, p.startOf(n)) > 0
}

// lines puts docs of nodes into lines of their own, with the empty lines that
// are between them in the text, and those that apart asks for.
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

// body is a list of lines in braces.
func (p *printer) body(n syntax.Node, nodes []syntax.Node, docs []*doc, apart func(i int) bool) *doc {
	inner := p.inner(n)
	if len(docs) == 0 {
		return emptyList("{", inner, "}")
	}
	return concat(text("{"), indent(concat(inner...), hard, p.lines(nodes, docs, apart)), hard, text("}"))
}

// braces is a list in braces, which is broken if its first element begins a
// line in the text, and if it does not fit. Between the elements stands
// separator in one line, and end after each of them in several.
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

// list is a list in brackets, broken if it does not fit.
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

// emptyList is a list in brackets that has only comments in it.
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

// commas are docs in one line, or in a line each.
func commas(docs []*doc) *doc { return join(docs, text(","), line) }

func (p *printer) name(id *syntax.Ident) *doc {
	return p.with(id, text(id.Name))
}

// path is a path in an expression.
func (p *printer) path(path *syntax.Path) *doc { return p.segments(path, "::", "::<") }

// segments is a path with separators, and with type arguments that begin with open.
func (p *printer) segments(path *syntax.Path, separator, open string) *doc {
	docs := docsOf(path.Segments, func(s syntax.Segment) *doc {
		if s.Args == nil {
			return p.name(s.Name)
		}
		return concat(p.name(s.Name), angles(open, docsOf(s.Args, p.typ)))
	})
	return p.with(path, join(docs, text(separator)))
}

// angles is a list in angle brackets, which never ends with a comma.
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
