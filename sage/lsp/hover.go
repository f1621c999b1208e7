package lsp

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/library"
	"github.com/coppice-dev/coppice/sage/syntax"
)

func (s *server) hover(p *positionParams) (*hover, error) {
	name, o := s.find(s.view(), p.TextDocument.URI, p.Position).object()
	if o == nil {
		return nil, nil
	}
	text := "```sage\n" + signature(o) + "\n```"
	if doc := docOf(o); doc != "" {
		text += "\n\n" + doc
	}
	return &hover{Contents: *markdown(text), Range: rangeOf(name.Span)}, nil
}

// maxShown bounds the shown text of a declaration.
const maxShown = 1000

// signature returns a short form of the declaration of an object.
func signature(o *check.Object) string {
	switch o.Kind {
	case check.Variable:
		return "let " + typed(o)
	case check.Parameter, check.RecordField, check.ChildName, check.Belief:
		if f, ok := o.Node.(*syntax.Field); ok && f.Persistent {
			return "@persistent " + typed(o)
		}
		return typed(o)
	case check.BeliefMethod:
		return map[string]string{"get": "get() -> T", "set": "set(value: T) -> Unit",
			"checkpoint": "checkpoint() -> Unit"}[o.Name]
	case check.LibraryFunc:
		return "fn " + o.Library.Signature
	case check.ToolFunc:
		return "fn " + o.Tool.Name + "." + o.Library.Signature
	case check.ToolName:
		return "tool " + o.Name
	case check.TypeParam:
		return o.Name
	case check.ModuleName:
		if o.Of != nil && o.Of.Path != "" {
			return "mod " + o.Of.Path
		}
		return "mod " + o.Name
	case check.VariantName:
		text := o.Name
		if v, ok := o.Node.(*syntax.Variant); ok {
			text = v.Source()
		}
		if o.Parent != nil {
			text = o.Parent.Name + "::" + text
		}
		return text
	}
	if o.Node == nil {
		for _, t := range library.Types() {
			if _, rest, _ := strings.Cut(t.Declaration, " "); strings.HasPrefix(rest, o.Name+" ") ||
				strings.HasPrefix(rest, o.Name+"<") {
				return t.Declaration
			}
		}
		return "const " + typed(o)
	}
	switch n := o.Node.(type) {
	case *syntax.FuncDecl:
		return head(n, n.Body)
	case *syntax.AgentDecl:
		return agentHead(n)
	case *syntax.SupervisorDecl:
		var children []string
		for _, c := range n.Children() {
			switch {
			case c.Name != nil:
				children = append(children, c.Target.String()+" as "+c.Name.Name)
			case c.Target != nil:
				children = append(children, c.Target.String())
			default:
				children = append(children, c.Process.Text)
			}
		}
		text := "supervisor " + o.Name
		if len(children) > 0 {
			text += " { " + strings.Join(children, ", ") + " }"
		}
		return shorten(text)
	}
	return shorten(o.Node.Extent().Source())
}

// typed returns name: T.
func typed(o *check.Object) string {
	if o.Type == nil {
		return o.Name
	}
	return o.Name + ": " + o.Type.String()
}

// head returns a declaration without its body.
func head(n syntax.Node, body *syntax.Block) string {
	span := n.Extent()
	if body != nil && body.Start > span.Start && body.Start <= span.End {
		span.End = body.Start
	}
	return shorten(strings.TrimSpace(span.Source()))
}

func agentHead(n *syntax.AgentDecl) string {
	text := "agent " + n.Name.Name
	if t := n.Receives(); t != nil {
		text += " receives " + t.Extent().Source()
	}
	for _, f := range n.Fields() {
		line := f.Name.Name
		if f.Type != nil {
			line += ": " + f.Type.Extent().Source()
		}
		if f.Persistent {
			line = "@persistent " + line
		}
		text += "\n    " + line
	}
	return shorten(text)
}

func shorten(text string) string {
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + "\n…"
	}
	return text
}

// docOf returns the comments directly above the declaration of an object.
func docOf(o *check.Object) string {
	if o.Doc != "" {
		return o.Doc
	}
	switch o.Kind {
	case check.BeliefMethod:
		return map[string]string{
			"get":        "The value of the belief.",
			"set":        "Changes the belief; what is persistent is kept before it returns.",
			"checkpoint": "Keeps the belief.",
		}[o.Name]
	case check.LibraryFunc, check.ToolFunc:
		return o.Library.Doc
	case check.ModuleName, check.Variable, check.Parameter, check.TypeParam:
		return ""
	}
	if o.Node == nil || o.Module == nil || o.Module.Tree == nil {
		return ""
	}
	file := o.Module.File
	line := file.LineOf(int(o.Node.Extent().Start))
	comments := o.Module.Tree.Comments
	var lines []string
	for _, c := range slices.Backward(comments) {
		at := file.LineOf(int(c.Start))
		if at >= line {
			continue
		}
		if at != line-1 || strings.TrimSpace(file.Line(at)) != c.Text {
			break
		}
		line = at
		lines = append(lines, strings.TrimPrefix(strings.TrimLeft(c.Text, "/"), " "))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}
