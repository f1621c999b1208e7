package lsp

import (
	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
	"github.com/coppice-dev/coppice/sage/syntax/printer"
)

func (s *server) definition(p *positionParams) ([]location, error) {
	a := s.find(s.view(), p.TextDocument.URI, p.Position)
	switch _, o := a.object(); {
	case o == nil:
		return []location{}, nil
	case o.Kind == check.ModuleName && o.Of != nil:
		return []location{a.location(o.Of.File.Span(0, 0))}, nil
	case !o.Span.Valid(): // of the library
		return []location{}, nil
	default:
		return []location{a.location(o.Span)}, nil
	}
}

func (s *server) references(p *referenceParams) ([]location, error) {
	locations := []location{}
	a := s.find(s.view(), p.TextDocument.URI, p.Position)
	_, o := a.object()
	if o == nil {
		return locations, nil
	}
	for _, occurrence := range occurrences(a.programs, o, p.Context.IncludeDeclaration) {
		locations = append(locations, a.location(occurrence))
	}
	return locations, nil
}

func (s *server) format(p *documentParams) ([]textEdit, error) {
	v := s.view()
	path := pathOf(p.TextDocument.URI)
	d, ok := v.documents[path]
	if !ok {
		return nil, failure("%s is not open", p.TextDocument.URI)
	}
	if err := d.fault(); err != nil {
		return nil, failure("cannot format the document: %v", err)
	}
	file := source.NewFile(path, d.text)
	after, diagnostics := printer.Format(file)
	if diag.HasErrors(diagnostics) {
		return nil, failure("cannot format a file with syntax errors: %s", diagnostics[0].Error())
	}
	return edits(file, after), nil
}

func (s *server) symbols(p *documentParams) ([]documentSymbol, error) {
	d, ok := s.view().documents[pathOf(p.TextDocument.URI)]
	if !ok || d.fault() != nil {
		return []documentSymbol{}, nil
	}
	tree, _ := parser.Parse(source.NewFile(d.path, d.text))
	return symbolsOf(tree.Decls, symbolOf), nil
}

// symbolsOf returns the symbols of the nodes that have one.
func symbolsOf[T any](nodes []T, of func(T) (documentSymbol, bool)) []documentSymbol {
	symbols := []documentSymbol{}
	for _, n := range nodes {
		if s, ok := of(n); ok {
			symbols = append(symbols, s)
		}
	}
	return symbols
}

func symbolOf(d syntax.Decl) (documentSymbol, bool) {
	switch d := d.(type) {
	case *syntax.ModDecl:
		return symbol(d, d.Name, symbolModule, "mod")
	case *syntax.RecordDecl:
		return symbol(d, d.Name, symbolStruct, "record", symbolsOf(d.Fields, fieldSymbol)...)
	case *syntax.EnumDecl:
		variants := symbolsOf(d.Variants, func(v *syntax.Variant) (documentSymbol, bool) {
			return symbol(v, v.Name, symbolMember, "")
		})
		return symbol(d, d.Name, symbolEnum, "enum", variants...)
	case *syntax.ConstDecl:
		return symbol(d, d.Name, symbolConstant, "const")
	case *syntax.FuncDecl:
		return symbol(d, d.Name, symbolFunction, "fn")
	case *syntax.AgentDecl:
		handlers := symbolsOf(d.Handlers(), func(h *syntax.Handler) (documentSymbol, bool) {
			s, ok := symbol(h, h.Word, symbolEvent, "")
			s.Name = "on " + s.Name
			return s, ok
		})
		return symbol(d, d.Name, symbolClass, "agent", append(symbolsOf(d.Fields(), fieldSymbol), handlers...)...)
	case *syntax.SupervisorDecl:
		return symbol(d, d.Name, symbolClass, "supervisor", symbolsOf(d.Children(), childSymbol)...)
	case *syntax.TestDecl:
		return documentSymbol{Name: nonEmpty(d.Name.Value), Detail: "test", Kind: symbolMethod,
			Range: rangeOf(d.Span), SelectionRange: rangeOf(d.Name.Span)}, true
	case *syntax.ToolDecl:
		funcs := symbolsOf(d.Funcs, func(f *syntax.FuncDecl) (documentSymbol, bool) {
			return symbol(f, f.Name, symbolMethod, "")
		})
		return symbol(d, d.Name, symbolInterface, "tool", funcs...)
	case *syntax.ProtocolDecl:
		return symbol(d, d.Name, symbolInterface, "protocol")
	case *syntax.EffectDecl:
		return symbol(d, d.Name, symbolObject, "handler")
	}
	return documentSymbol{}, false
}

func fieldSymbol(f *syntax.Field) (documentSymbol, bool) {
	return symbol(f, f.Name, symbolField, f.Type.Extent().Source())
}

func childSymbol(c *syntax.Child) (documentSymbol, bool) {
	if c.Process != nil {
		return documentSymbol{Name: nonEmpty(c.Process.Value), Kind: symbolObject,
			Range: rangeOf(c.Span), SelectionRange: rangeOf(c.Process.Span)}, true
	}
	s, ok := symbol(c, c.Target.Last(), symbolObject, "")
	s.Name = c.Target.String()
	if c.Name != nil {
		s.Name, s.Detail = c.Name.Name, s.Name
	}
	return s, ok
}

// symbol returns a symbol, if it has a name.
func symbol(
	n syntax.Node, name *syntax.Ident, kind int, detail string, children ...documentSymbol,
) (documentSymbol, bool) {
	if name.Name == "" || !name.Valid() {
		return documentSymbol{}, false
	}
	return documentSymbol{Name: name.Name, Detail: detail, Kind: kind, Range: rangeOf(n.Extent()),
		SelectionRange: rangeOf(name.Span), Children: children}, true
}

// nonEmpty returns a name that editors accept.
func nonEmpty(name string) string {
	if name == "" {
		return `""`
	}
	return name
}
