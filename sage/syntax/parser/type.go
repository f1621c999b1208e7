package parser

import "github.com/coppice-dev/coppice/sage/syntax"

// typ parses a type.
func (p *parser) typ() syntax.Type {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &syntax.BadType{Span: p.bad()}
	}
	switch {
	case p.kind == syntax.LParen:
		p.next()
		t := &syntax.TupleType{}
		p.list(syntax.RParen, false, func() { t.Elems = append(t.Elems, p.typ()) })
		if len(t.Elems) == 1 {
			return t.Elems[0]
		}
		t.Span = p.finish(start)
		return t
	case p.is("Fn") && p.ahead(1) == syntax.LParen:
		p.next()
		p.next()
		t := &syntax.FuncType{}
		p.list(syntax.RParen, false, func() { t.Params = append(t.Params, p.typ()) })
		if p.got(syntax.Arrow) {
			t.Result = p.typ()
		}
		t.Span = p.finish(start)
		return t
	case p.kind == syntax.LBracket:
		p.fault(p.here(), syntax.CodeForeign, "a type cannot begin with [", "the type of a list is written List<T>")
		p.next()
		p.list(syntax.RBracket, false, func() { p.typ() })
		return &syntax.BadType{Span: p.finish(start)}
	case p.kind.IsName():
		t := &syntax.NamedType{Name: p.path("of the type", true)}
		t.Span = p.finish(start)
		return t
	}
	p.unexpected("a type", "")
	return &syntax.BadType{Span: p.bad()}
}

// path parses a::b::c. Type arguments are written a<T> in a type and a::<T> elsewhere.
func (p *parser) path(what string, inType bool) *syntax.Path {
	start := p.start()
	path := &syntax.Path{Segments: []syntax.Segment{{Name: p.name(what)}}}
	p.segments(path, inType)
	path.Span = p.finish(start)
	return path
}

// segments parses the rest of a path after its first name.
func (p *parser) segments(path *syntax.Path, inType bool) {
	for {
		last := &path.Segments[len(path.Segments)-1]
		switch {
		case p.kind == syntax.ColonColon && p.ahead(1) == syntax.Less:
			p.next()
			last.Args = p.typeArgs()
		case inType && p.kind == syntax.Less:
			last.Args = p.typeArgs()
		case p.kind == syntax.ColonColon:
			p.next()
			path.Segments = append(path.Segments, syntax.Segment{Name: p.word("after ::")})
		default:
			return
		}
	}
}

// typeArgs parses <T, U>.
func (p *parser) typeArgs() []syntax.Type {
	p.next()
	var args []syntax.Type
	for more := true; more; more = p.got(syntax.Comma) && p.kind != syntax.Greater {
		args = append(args, p.typ())
	}
	if p.kind == syntax.GreaterEqual {
		// List<Int>= is scanned with a single >= token.
		p.tokens[p.at].Start++
		p.tokens[p.at].Kind = syntax.Assign
		p.kind = syntax.Assign
		return args
	}
	if !p.got(syntax.Greater) {
		p.missing(syntax.Greater, "after the type", "")
	}
	return args
}

// pattern parses a pattern.
func (p *parser) pattern() syntax.Pattern {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &syntax.BadPat{Span: p.bad()}
	}
	switch {
	case p.kind == syntax.LParen:
		p.next()
		t := &syntax.TuplePat{}
		p.list(syntax.RParen, false, func() { t.Elems = append(t.Elems, p.pattern()) })
		if len(t.Elems) == 1 {
			return t.Elems[0]
		}
		t.Span = p.finish(start)
		return t
	case p.kind == syntax.Int || p.kind == syntax.Float ||
		p.kind == syntax.Sub && (p.ahead(1) == syntax.Int || p.ahead(1) == syntax.Float):
		l := &syntax.LiteralPat{Value: p.numberLit(p.got(syntax.Sub), start)}
		l.Span = p.finish(start)
		return l
	case p.kind == syntax.String || p.kind == syntax.TemplateHead:
		l := &syntax.LiteralPat{Value: p.plainString("of a pattern")}
		l.Span = p.finish(start)
		return l
	case p.kind == syntax.True || p.kind == syntax.False:
		b := &syntax.BoolLit{Value: p.kind == syntax.True}
		p.next()
		b.Span = p.finish(start)
		return &syntax.LiteralPat{Span: b.Span, Value: b}
	case p.kind.IsName():
		return p.namePattern(start)
	}
	p.unexpected("a pattern", "a pattern is a literal, a name, _, a variant or a tuple of these")
	return &syntax.BadPat{Span: p.bad()}
}

func (p *parser) namePattern(start int32) syntax.Pattern {
	if p.is("_") {
		p.next()
		return &syntax.WildcardPat{Span: p.finish(start)}
	}
	path := p.path("of the pattern", false)
	v := &syntax.VariantPat{Name: path}
	for p.got(syntax.Dot) {
		v.Dotted = true
		path.Segments = append(path.Segments, syntax.Segment{Name: p.word("of the variant")})
		path.Span = p.finish(start)
	}
	if p.got(syntax.LParen) {
		if p.kind == syntax.RParen {
			p.unexpected("a pattern", "a variant that carries nothing has no parentheses")
		}
		p.list(syntax.RParen, false, func() { v.Args = append(v.Args, p.pattern()) })
	} else if len(path.Segments) == 1 && path.Segments[0].Args == nil && !upper(path.Segments[0].Name.Name) {
		return &syntax.BindPat{Span: p.finish(start), Name: path.Segments[0].Name}
	}
	v.Span = p.finish(start)
	return v
}

// upper reports whether a name starts with a capital letter, like types, variants and constants.
func upper(name string) bool {
	return name != "" && name[0] >= 'A' && name[0] <= 'Z'
}
