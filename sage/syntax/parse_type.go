package syntax

import "unicode/utf8"

// typ reads a type.
func (p *parser) typ() Type {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &BadType{p.bad()}
	}
	switch {
	case p.kind == LParen:
		p.next()
		t := &TupleType{}
		p.list(RParen, false, func() { t.Elems = append(t.Elems, p.typ()) })
		if len(t.Elems) == 1 {
			return t.Elems[0]
		}
		t.Span = p.finish(start)
		return t
	case p.is("Fn") && p.ahead(1) == LParen:
		p.next()
		p.next()
		t := &FuncType{}
		p.list(RParen, false, func() { t.Params = append(t.Params, p.typ()) })
		if p.got(Arrow) {
			t.Result = p.typ()
		}
		t.Span = p.finish(start)
		return t
	case p.kind == LBracket:
		p.fault(p.here(), CodeForeign, "a type cannot begin with [", "the type of a list is written List<T>")
		p.next()
		p.list(RBracket, false, func() { p.typ() })
		return &BadType{p.finish(start)}
	case p.kind.IsName():
		t := &NamedType{Name: p.path("of the type", true)}
		t.Span = p.finish(start)
		return t
	}
	p.unexpected("a type", "")
	return &BadType{p.bad()}
}

// path reads a::b::c; types follow its names as a<T> in a type, and as a::<T> elsewhere.
func (p *parser) path(what string, inType bool) *Path {
	start := p.start()
	path := &Path{Segments: []Segment{{Name: p.name(what)}}}
	p.segments(path, inType)
	path.Span = p.finish(start)
	return path
}

// segments reads what follows the first name of a path.
func (p *parser) segments(path *Path, inType bool) {
	for {
		last := &path.Segments[len(path.Segments)-1]
		switch {
		case p.kind == ColonColon && p.ahead(1) == Less:
			p.next()
			last.Args = p.typeArgs()
		case inType && p.kind == Less:
			last.Args = p.typeArgs()
		case p.kind == ColonColon:
			p.next()
			path.Segments = append(path.Segments, Segment{Name: p.word("behind ::")})
		default:
			return
		}
	}
}

// typeArgs reads <T, U>.
func (p *parser) typeArgs() []Type {
	p.next()
	var args []Type
	for {
		args = append(args, p.typ())
		if !p.got(Comma) || p.kind == Greater {
			break
		}
	}
	if p.kind == GreaterEqual {
		// List<Int>=, in which the scanner sees >=.
		p.tokens[p.at].Start++
		p.tokens[p.at].Kind = Assign
		p.kind = Assign
		return args
	}
	if !p.got(Greater) {
		p.missing(Greater, "after the type", "")
	}
	return args
}

// pattern reads a pattern.
func (p *parser) pattern() Pattern {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &BadPat{p.bad()}
	}
	switch {
	case p.kind == LParen:
		p.next()
		t := &TuplePat{}
		p.list(RParen, false, func() { t.Elems = append(t.Elems, p.pattern()) })
		if len(t.Elems) == 1 {
			return t.Elems[0]
		}
		t.Span = p.finish(start)
		return t
	case p.kind == Int || p.kind == Float || p.kind == Sub && (p.ahead(1) == Int || p.ahead(1) == Float):
		l := &LiteralPat{Value: p.numberLit(p.got(Sub), start)}
		l.Span = p.finish(start)
		return l
	case p.kind == String || p.kind == TemplateHead:
		l := &LiteralPat{Value: p.plainString("of a pattern")}
		l.Span = p.finish(start)
		return l
	case p.kind == True || p.kind == False:
		b := &BoolLit{Value: p.kind == True}
		p.next()
		b.Span = p.finish(start)
		return &LiteralPat{b.Span, b}
	case p.kind.IsName():
		return p.namePattern(start)
	}
	p.unexpected("a pattern", "a pattern is a literal, a name, _, a variant or a tuple of these")
	return &BadPat{p.bad()}
}

func (p *parser) namePattern(start int32) Pattern {
	if p.is("_") {
		p.next()
		return &WildcardPat{p.finish(start)}
	}
	path := p.path("of the pattern", false)
	v := &VariantPat{Name: path}
	for p.kind == Dot {
		p.next()
		v.Dotted = true
		path.Segments = append(path.Segments, Segment{Name: p.word("of the variant")})
		path.Span = p.finish(start)
	}
	if p.got(LParen) {
		if p.kind == RParen {
			p.unexpected("a pattern", "a variant that carries nothing has no parentheses")
		}
		p.list(RParen, false, func() { v.Args = append(v.Args, p.pattern()) })
	} else if len(path.Segments) == 1 && path.Segments[0].Args == nil && !upper(path.Segments[0].Name.Name) {
		return &BindPat{p.finish(start), path.Segments[0].Name}
	}
	v.Span = p.finish(start)
	return v
}

// upper reports whether a name begins with a capital letter, as those of
// types, variants and constants do.
func upper(name string) bool {
	return name != "" && name[0] < utf8.RuneSelf && name[0] >= 'A' && name[0] <= 'Z'
}
