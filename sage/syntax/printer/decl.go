package printer

import "github.com/coppice-dev/coppice/sage/syntax"

func (p *printer) file(f *syntax.File) *doc {
	docs := docsOf(f.Decls, p.decl)
	return concat(concat(p.inner(f)...), p.lines(nodesOf(f.Decls), docs, func(i int) bool {
		return !short(f.Decls[i-1]) || !short(f.Decls[i])
	}))
}

// short reports whether a declaration needs no empty line between it and its neighbours.
func short(d syntax.Decl) bool {
	switch d := d.(type) {
	case *syntax.ModDecl, *syntax.UseDecl, *syntax.ConstDecl:
		return true
	case *syntax.RunDecl:
		return len(d.Inits) == 0
	case *syntax.FuncDecl:
		return d.Body == nil
	case *syntax.RecordDecl:
		return len(d.Fields) == 0
	}
	return false
}

func pub(is bool) *doc {
	if is {
		return text("pub ")
	}
	return none
}

func (p *printer) decl(d syntax.Decl) *doc {
	return p.with(d, p.bareDecl(d))
}

func (p *printer) bareDecl(d syntax.Decl) *doc {
	switch d := d.(type) {
	case *syntax.ModDecl:
		return concat(pub(d.Pub), text("mod "), p.name(d.Name), text(";"))
	case *syntax.UseDecl:
		return p.useDecl(d)
	case *syntax.RecordDecl:
		return concat(pub(d.Pub), text("record "), p.name(d.Name), p.typeParams(d.TypeParams), text(" "),
			p.braces(d, nodesOf(d.Fields), docsOf(d.Fields, p.field), ","))
	case *syntax.EnumDecl:
		return concat(pub(d.Pub), text("enum "), p.name(d.Name), p.typeParams(d.TypeParams), text(" "),
			p.braces(d, nodesOf(d.Variants), docsOf(d.Variants, p.variant), ","))
	case *syntax.ConstDecl:
		parts := []*doc{pub(d.Pub), text("const "), p.name(d.Name)}
		if d.Type != nil {
			parts = append(parts, text(": "), p.typ(d.Type))
		}
		return concat(append(parts, text(" ="), p.value(d.Value), text(";"))...)
	case *syntax.FuncDecl:
		return p.funcDecl(d)
	case *syntax.AgentDecl:
		return p.agentDecl(d)
	case *syntax.SupervisorDecl:
		return concat(pub(d.Pub), text("supervisor "), p.name(d.Name), text(" "),
			p.body(d, nodesOf(d.Members), docsOf(d.Members, p.supervisorPart), nil))
	case *syntax.TestDecl:
		var parts []*doc
		for _, a := range d.Attrs {
			parts = append(parts, text("@"), p.name(a), hard)
		}
		return concat(append(parts, text("test "), p.expr(d.Name), text(" "), p.block(d.Body))...)
	case *syntax.RunDecl:
		if !d.Braces {
			return concat(text("run "), p.path(d.Target), text(";"))
		}
		return concat(text("run "), p.path(d.Target), text(" "), p.inits(d, d.Inits), text(";"))
	case *syntax.ToolDecl:
		docs := docsOf(d.Funcs, func(f *syntax.FuncDecl) *doc { return p.with(f, p.funcDecl(f)) })
		return concat(pub(d.Pub), text("tool "), p.name(d.Name), text(" "), p.body(d, nodesOf(d.Funcs), docs, nil))
	case *syntax.ProtocolDecl:
		docs := docsOf(d.Steps, func(s *syntax.ProtocolStep) *doc {
			return p.with(s, concat(p.name(s.From), text(" -> "), p.name(s.To), text(": "), p.typ(s.Message)))
		})
		return concat(pub(d.Pub), text("protocol "), p.name(d.Name), text(" "), p.body(d, nodesOf(d.Steps), docs, nil))
	case *syntax.EffectDecl:
		return concat(pub(d.Pub), text("handler "), p.name(d.Name), text(" handles "), p.name(d.Effect), text(" "),
			p.body(d, nodesOf(d.Inits), docsOf(d.Inits, p.fieldInit), nil))
	}
	return text(d.Extent().Source())
}

func (p *printer) useDecl(d *syntax.UseDecl) *doc {
	parts := []*doc{pub(d.Pub), text("use "), join(docsOf(d.Path, p.name), text("::"))}
	switch {
	case d.Glob:
		parts = append(parts, text("::*"))
	case len(d.Names) > 0:
		docs := docsOf(d.Names, func(n syntax.UseName) *doc { return concat(p.name(n.Name), p.alias(n.Alias)) })
		parts = append(parts, text("::"), p.list(d, "{", docs, "}"))
	default:
		parts = append(parts, p.alias(d.Alias))
	}
	return concat(append(parts, text(";"))...)
}

func (p *printer) alias(id *syntax.Ident) *doc {
	if id == nil {
		return none
	}
	return concat(text(" as "), p.name(id))
}

func (p *printer) typeParams(params []*syntax.Ident) *doc {
	if len(params) == 0 {
		return none
	}
	return angles("<", docsOf(params, p.name))
}

func (p *printer) field(f *syntax.Field) *doc {
	var parts []*doc
	if f.Persistent {
		parts = append(parts, text("@persistent "))
	}
	parts = append(parts, p.name(f.Name), text(": "), p.typ(f.Type))
	if f.Value != nil {
		parts = append(parts, text(" ="), p.value(f.Value))
	}
	return p.with(f, concat(parts...))
}

func (p *printer) variant(v *syntax.Variant) *doc {
	d := p.name(v.Name)
	if len(v.Payload) > 0 {
		d = concat(d, p.list(v, "(", docsOf(v.Payload, p.typ), ")"))
	}
	return p.with(v, d)
}

func (p *printer) param(a *syntax.Param) *doc {
	d := p.name(a.Name)
	if a.Type != nil {
		d = concat(d, text(": "), p.typ(a.Type))
	}
	return p.with(a, d)
}

// inits prints { name: value, … } of a node.
func (p *printer) inits(n syntax.Node, inits []*syntax.FieldInit) *doc {
	return p.braces(n, nodesOf(inits), docsOf(inits, p.fieldInit), ",")
}

func (p *printer) fieldInit(f *syntax.FieldInit) *doc {
	return p.with(f, concat(p.name(f.Name), text(":"), p.value(f.Value)))
}

func (p *printer) funcDecl(f *syntax.FuncDecl) *doc {
	var parts []*doc
	for _, a := range f.Attrs {
		value := none
		if a.Value != nil {
			value = concat(text(" = "), p.expr(a.Value))
		}
		parts = append(parts, p.with(a, concat(text("#["), p.name(a.Name), value, text("]"))), hard)
	}
	parts = append(parts, pub(f.Pub))
	if f.Extern {
		parts = append(parts, text("extern "))
	}
	parts = append(parts, text("fn "), p.name(f.Name), p.typeParams(f.TypeParams),
		p.list(f, "(", docsOf(f.Params, p.param), ")"))
	if f.Result != nil {
		parts = append(parts, text(" -> "), p.typ(f.Result))
	}
	if f.Fails {
		parts = append(parts, text(" fails"))
	}
	if f.Body != nil {
		parts = append(parts, text(" "), p.block(f.Body))
	}
	return concat(parts...)
}

func (p *printer) agentDecl(d *syntax.AgentDecl) *doc {
	var clauses []*doc
	for _, c := range d.Clauses {
		clauses = append(clauses, line, p.agentPart(c))
	}
	header := group(pub(d.Pub), text("agent "), p.name(d.Name), indent(clauses...))
	docs := docsOf(d.Members, p.agentPart)
	return concat(header, text(" "), p.body(d, nodesOf(d.Members), docs, func(i int) bool {
		_, before := d.Members[i-1].(*syntax.Handler)
		_, after := d.Members[i].(*syntax.Handler)
		return before || after
	}))
}

func (p *printer) agentPart(n syntax.AgentPart) *doc {
	switch n := n.(type) {
	case *syntax.ReceivesClause:
		return p.with(n, concat(text("receives "), p.typ(n.Type)))
	case *syntax.FollowsClause:
		roles := docsOf(n.Roles, func(r syntax.Role) *doc {
			return concat(p.name(r.Protocol), text(" as "), p.name(r.Role))
		})
		return p.with(n, concat(text("follows "), join(roles, text(", "))))
	case *syntax.UseClause:
		word := "use "
		if n.Uses {
			word = "uses "
		}
		return p.with(n, concat(text(word), join(docsOf(n.Tools, p.name), text(", "))))
	case *syntax.Field:
		return p.field(n)
	case *syntax.Handler:
		parts := []*doc{text("on "), p.name(n.Word)}
		if n.Param != nil {
			parts = append(parts, text("("), p.param(n.Param), text(")"))
		}
		return p.with(n, concat(append(parts, text(" "), p.block(n.Body))...))
	}
	return p.with(n, text(n.Extent().Source()))
}

func (p *printer) supervisorPart(n syntax.SupervisorPart) *doc {
	switch n := n.(type) {
	case *syntax.FieldInit:
		return p.fieldInit(n)
	case *syntax.ChildrenBlock:
		return p.with(n, concat(text("children "), p.body(n, nodesOf(n.Children), docsOf(n.Children, p.child), nil)))
	}
	return none
}

func (p *printer) child(c *syntax.Child) *doc {
	var target *doc
	if c.Process != nil {
		target = p.expr(c.Process)
	} else {
		target = p.path(c.Target)
	}
	docs := docsOf(c.Parts, func(n syntax.ChildPart) *doc {
		switch n := n.(type) {
		case *syntax.FieldInit:
			return p.fieldInit(n)
		case *syntax.EffectBinding:
			return p.with(n, concat(text("handler "), p.name(n.Effect), text(": "), p.name(n.Handler)))
		}
		return none
	})
	return p.with(c, concat(target, p.alias(c.Name), text(" "), p.braces(c, nodesOf(c.Parts), docs, "")))
}
