package syntax

import "github.com/coppice-dev/coppice/sage/source"

// atDecl reports whether a declaration begins here. No expression can begin so.
func (p *parser) atDecl() bool {
	next := p.ahead(1)
	switch p.kind {
	case Pub:
		return true
	case Agent, Supervisor, Record, Enum, Tool, Protocol, Mod, Run, Const, Use:
		return next.IsName()
	case Fn:
		return next.IsName()
	case Extern:
		return next == Fn
	case Test:
		return next == String || next == TemplateHead
	case HandlerWord:
		return next.IsName() && p.ahead(2) == Handles
	case At:
		return next == Name && p.ahead(2) == Test
	}
	return false
}

func (p *parser) decl() Decl {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &BadDecl{p.bad()}
	}
	var attrs []*Ident
	for p.kind == At {
		p.next()
		attrs = append(attrs, p.name("of the annotation"))
	}
	if attrs != nil && p.kind != Test {
		p.fault(attrs[0].Span, CodeMisplaced, "only tests have annotations here",
			"@persistent stands before a belief of an agent, @serial before a test")
	}
	pub := p.got(Pub)
	switch p.kind {
	case Mod:
		return p.modDecl(start, pub)
	case Use:
		return p.useDecl(start, pub)
	case Record:
		return p.recordDecl(start, pub)
	case Enum:
		return p.enumDecl(start, pub)
	case Const:
		return p.constDecl(start, pub)
	case Fn, Extern:
		f := p.funcDecl(start)
		f.Pub = pub
		return f
	case Agent:
		return p.agentDecl(start, pub)
	case Supervisor:
		return p.supervisorDecl(start, pub)
	case Tool:
		return p.toolDecl(start, pub)
	case Protocol:
		return p.protocolDecl(start, pub)
	case HandlerWord:
		return p.effectDecl(start, pub)
	case Test:
		return p.testDecl(start, attrs)
	case Run:
		return p.runDecl(start)
	}
	return p.notDecl(start)
}

func (p *parser) modDecl(start int32, pub bool) Decl {
	p.next()
	d := &ModDecl{Pub: pub, Name: p.name("of the module")}
	p.semicolon("after the module")
	d.Span = p.finish(start)
	return d
}

func (p *parser) useDecl(start int32, pub bool) Decl {
	p.next()
	d := &UseDecl{Pub: pub}
	d.Path = append(d.Path, p.word("of the module"))
	for p.got(ColonColon) {
		if p.got(Mul) {
			d.Glob = true
			break
		}
		if p.got(LBrace) {
			p.list(RBrace, true, func() {
				n := UseName{Name: p.word("to be used")}
				if p.got(As) {
					n.Alias = p.name("it is used as")
				}
				d.Names = append(d.Names, n)
			})
			break
		}
		d.Path = append(d.Path, p.word("to be used"))
	}
	if !d.Glob && d.Names == nil && p.got(As) {
		d.Alias = p.name("it is used as")
	}
	p.semicolon("after use")
	d.Span = p.finish(start)
	return d
}

func (p *parser) typeParams() []*Ident {
	if !p.got(Less) {
		return nil
	}
	var params []*Ident
	p.list(Greater, false, func() { params = append(params, p.name("of a type parameter")) })
	return params
}

func (p *parser) recordDecl(start int32, pub bool) Decl {
	p.next()
	d := &RecordDecl{Pub: pub, Name: p.name("of the record"), TypeParams: p.typeParams()}
	if p.expect(LBrace, "before the fields") {
		p.list(RBrace, true, func() {
			if p.kind == At {
				p.fault(p.here(), CodeMisplaced, "fields of records have no annotations",
					"@persistent stands before a belief of an agent")
				p.next()
				p.word("")
			}
			d.Fields = append(d.Fields, p.field(p.start()))
		})
	}
	d.Span = p.finish(start)
	return d
}

// field reads name: type.
func (p *parser) field(start int32) *Field {
	f := &Field{Name: p.word("of the field")}
	if p.expect(Colon, "and the type of the field") || p.kind.IsName() && !p.onNewLine() {
		f.Type = p.typ()
	} else {
		f.Type = &BadType{p.finish(p.start())}
	}
	f.Span = p.finish(start)
	return f
}

func (p *parser) enumDecl(start int32, pub bool) Decl {
	p.next()
	d := &EnumDecl{Pub: pub, Name: p.name("of the enum"), TypeParams: p.typeParams()}
	if p.expect(LBrace, "before the variants") {
		p.list(RBrace, true, func() {
			start := p.start()
			v := &Variant{Name: p.name("of the variant")}
			if p.got(LParen) {
				if p.kind == RParen {
					p.unexpected("a type", "a variant that carries nothing has no parentheses")
				}
				p.list(RParen, false, func() { v.Payload = append(v.Payload, p.typ()) })
			}
			v.Span = p.finish(start)
			d.Variants = append(d.Variants, v)
		})
	}
	d.Span = p.finish(start)
	return d
}

func (p *parser) constDecl(start int32, pub bool) Decl {
	p.next()
	d := &ConstDecl{Pub: pub, Name: p.name("of the constant")}
	if p.got(Colon) {
		d.Type = p.typ()
	}
	p.expect(Assign, "and the value of the constant")
	d.Value = p.expr()
	p.semicolon("after the constant")
	d.Span = p.finish(start)
	return d
}

// funcDecl reads a function; whether it needs a body follows from what it is.
func (p *parser) funcDecl(start int32) *FuncDecl {
	f := &FuncDecl{Extern: p.got(Extern)}
	p.signature(f)
	switch {
	case f.Extern:
		p.got(Semicolon)
	case p.kind == Semicolon:
		p.unexpected("the body of the function", "a function without a body is declared with extern fn")
		p.next()
	default:
		f.Body = p.block("before the body of the function")
	}
	f.Span = p.finish(start)
	return f
}

func (p *parser) signature(f *FuncDecl) {
	p.expect(Fn, "here")
	f.Name = p.name("of the function")
	f.TypeParams = p.typeParams()
	if p.expect(LParen, "before the parameters") {
		p.list(RParen, false, func() { f.Params = append(f.Params, p.param(true)) })
	}
	switch {
	case p.got(Arrow):
		f.Result = p.typ()
	case p.kind == FatArrow || p.kind == Colon:
		p.fault(p.here(), CodeForeign, "expected `->` before the type of the result, found `"+p.text()+"`",
			"write -> before the type")
		p.next()
		f.Result = p.typ()
	}
	f.Fails = p.got(Fails)
}

// param reads name: type.
func (p *parser) param(typed bool) *Param {
	start := p.start()
	a := &Param{Name: p.name("of the parameter")}
	if p.got(Colon) {
		a.Type = p.typ()
	} else if typed {
		p.missing(Colon, "and the type of the parameter", "write it as name: Type")
		a.Type = &BadType{p.finish(p.start())}
	}
	a.Span = p.finish(start)
	return a
}

func (p *parser) testDecl(start int32, attrs []*Ident) Decl {
	p.next()
	d := &TestDecl{Attrs: attrs, Name: p.plainString("of the test")}
	d.Body = p.block("before the body of the test")
	d.Span = p.finish(start)
	return d
}

// plainString reads a string without interpolation.
func (p *parser) plainString(what string) *StringLit {
	start := p.start()
	switch p.kind {
	case String:
		return p.stringLit()
	case TemplateHead:
		p.fault(p.here(), CodeUnexpected, "the string "+what+" cannot have interpolations",
			"write \\{ for a brace that is text")
		p.template()
	default:
		p.unexpected("the string "+what, "")
	}
	return &StringLit{Span: p.finish(start)}
}

func (p *parser) runDecl(start int32) Decl {
	p.next()
	d := &RunDecl{Target: p.path("of the agent or supervisor to run", false)}
	if p.kind == LBrace {
		d.Braces = true
		d.Inits = p.inits()
	}
	p.semicolon("after run")
	d.Span = p.finish(start)
	return d
}

// fieldInit reads name: value.
func (p *parser) fieldInit() *FieldInit {
	start := p.start()
	f := &FieldInit{Name: p.word("of the field")}
	if p.expect(Colon, "and the value of `"+brief(f.Name.Name)+"`") || p.got(Assign) || p.atExpr() && !p.onNewLine() {
		f.Value = p.expr()
	} else {
		f.Value = &BadExpr{p.finish(p.start())}
	}
	f.Span = p.finish(start)
	return f
}

// inits reads { name: value, … }.
func (p *parser) inits() []*FieldInit {
	var inits []*FieldInit
	defer p.inside()()
	p.expect(LBrace, "here")
	p.list(RBrace, true, func() { inits = append(inits, p.fieldInit()) })
	return inits
}

// inside is for what stands in brackets, where a brace can be that of a record.
// It returns how to undo it.
func (p *parser) inside() func() {
	head := p.head
	p.head = false
	return func() { p.head = head }
}

// semicolon takes the semicolon at the end of a declaration or statement.
func (p *parser) semicolon(where string) {
	if p.got(Semicolon) {
		return
	}
	onNewLine := p.onNewLine()
	p.missing(Semicolon, where, "")
	if !onNewLine {
		p.skip(func() bool { return p.kind == Semicolon || p.onNewLine() })
		p.got(Semicolon)
	}
}

// bad is a span of what could not be read.
func (p *parser) bad() source.Span { return p.finish(p.start()) }
