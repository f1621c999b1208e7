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
	if a == nil {
		return []location{}, nil
	}
	_, o := a.object()
	switch {
	case o == nil:
		return []location{}, nil
	case o.Kind == check.ModuleName && o.Of != nil:
		return []location{a.location(o.Of.File.Span(0, 0))}, nil
	case !o.Span.Valid(): // of the library
		return []location{}, nil
	}
	return []location{a.location(o.Span)}, nil
}

func (s *server) references(p *referenceParams) ([]location, error) {
	locations := []location{}
	a := s.find(s.view(), p.TextDocument.URI, p.Position)
	if a == nil {
		return locations, nil
	}
	_, o := a.object()
	if o == nil {
		return locations, nil
	}
	for _, spot := range spots(a.programs, o, p.Context.IncludeDeclaration) {
		locations = append(locations, a.location(spot))
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
		return nil, failure("it cannot be formatted: %v", err)
	}
	file := source.NewFile(path, d.text)
	after, diagnostics := printer.Format(file)
	if diag.HasErrors(diagnostics) {
		return nil, failure("a program with errors of form is left as it is: %s", diagnostics[0].Error())
	}
	return edits(file, after), nil
}

func (s *server) symbols(p *documentParams) ([]documentSymbol, error) {
	d, ok := s.view().documents[pathOf(p.TextDocument.URI)]
	symbols := []documentSymbol{}
	if !ok || d.fault() != nil {
		return symbols, nil
	}
	tree, _ := parser.Parse(source.NewFile(d.path, d.text))
	for _, decl := range tree.Decls {
		if symbol, ok := symbolOf(decl); ok {
			symbols = append(symbols, symbol)
		}
	}
	return symbols, nil
}

func symbolOf(d syntax.Decl) (documentSymbol, bool) {
	switch d := d.(type) {
	case *syntax.ModDecl:
		return symbol(d, d.Name, symbolModule, "mod")
	case *syntax.RecordDecl:
		return symbol(d, d.Name, symbolStruct, "record", fields(d.Fields)...)
	case *syntax.EnumDecl:
		var variants []documentSymbol
		for _, v := range d.Variants {
			if s, ok := symbol(v, v.Name, symbolMember, ""); ok {
				variants = append(variants, s)
			}
		}
		return symbol(d, d.Name, symbolEnum, "enum", variants...)
	case *syntax.ConstDecl:
		return symbol(d, d.Name, symbolConstant, "const")
	case *syntax.FuncDecl:
		return symbol(d, d.Name, symbolFunction, "fn")
	case *syntax.AgentDecl:
		members := fields(d.Fields())
		for _, h := range d.Handlers() {
			if s, ok := symbol(h, h.Word, symbolEvent, ""); ok {
				s.Name = "on " + s.Name
				members = append(members, s)
			}
		}
		return symbol(d, d.Name, symbolClass, "agent", members...)
	case *syntax.SupervisorDecl:
		var children []documentSymbol
		for _, c := range d.Children() {
			if c.Process != nil {
				children = append(children, documentSymbol{Name: nonEmpty(c.Process.Value), Kind: symbolObject,
					Range: rangeOf(c.Span), SelectionRange: rangeOf(c.Process.Span)})
			} else if c.Target != nil {
				if s, ok := symbol(c, c.Target.Last(), symbolObject, ""); ok {
					s.Name = c.Target.String()
					if c.Name != nil {
						s.Name, s.Detail = c.Name.Name, c.Target.String()
					}
					children = append(children, s)
				}
			}
		}
		return symbol(d, d.Name, symbolClass, "supervisor", children...)
	case *syntax.TestDecl:
		if d.Name == nil {
			return documentSymbol{}, false
		}
		return documentSymbol{Name: nonEmpty(d.Name.Value), Detail: "test", Kind: symbolMethod,
			Range: rangeOf(d.Span), SelectionRange: rangeOf(d.Name.Span)}, true
	case *syntax.ToolDecl:
		var funcs []documentSymbol
		for _, f := range d.Funcs {
			if s, ok := symbol(f, f.Name, symbolMethod, ""); ok {
				funcs = append(funcs, s)
			}
		}
		return symbol(d, d.Name, symbolInterface, "tool", funcs...)
	case *syntax.ProtocolDecl:
		return symbol(d, d.Name, symbolInterface, "protocol")
	case *syntax.EffectDecl:
		return symbol(d, d.Name, symbolObject, "handler")
	}
	return documentSymbol{}, false
}

func fields(all []*syntax.Field) []documentSymbol {
	var symbols []documentSymbol
	for _, f := range all {
		if s, ok := symbol(f, f.Name, symbolField, ""); ok {
			if f.Type != nil {
				s.Detail = f.Type.Extent().Source()
			}
			symbols = append(symbols, s)
		}
	}
	return symbols
}

// symbol is a symbol, if it has a name.
func symbol(n syntax.Node, name *syntax.Ident, kind int, detail string, children ...documentSymbol) (documentSymbol,
	bool) {
	if name == nil || name.Name == "" || !name.Valid() {
		return documentSymbol{}, false
	}
	return documentSymbol{Name: name.Name, Detail: detail, Kind: kind, Range: rangeOf(n.Extent()),
		SelectionRange: rangeOf(name.Span), Children: children}, true
}

// nonEmpty is a name that editors accept.
func nonEmpty(name string) string {
	if name == "" {
		return `""`
	}
	return name
}
