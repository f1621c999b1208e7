package parser

import (
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
)

// atDecl reports whether a declaration starts here. No expression can start like that.
func (p *parser) atDecl() bool {
	next := p.ahead(1)
	switch p.kind {
	case syntax.Pub:
		return true
	case syntax.Agent, syntax.Supervisor, syntax.Record, syntax.Enum, syntax.Tool, syntax.Protocol,
		syntax.Mod, syntax.Run, syntax.Const, syntax.Use, syntax.Fn:
		return next.IsName()
	case syntax.Extern:
		return next == syntax.Fn
	case syntax.Test:
		return next == syntax.String || next == syntax.TemplateHead
	case syntax.HandlerKeyword:
		return next.IsName() && p.ahead(2) == syntax.Handles
	case syntax.At:
		return next == syntax.Name && p.ahead(2) == syntax.Test
	}
	return false
}

func (p *parser) decl() syntax.Decl {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &syntax.BadDecl{Span: p.bad()}
	}
	var attrs []*syntax.Ident
	for p.kind == syntax.At {
		p.next()
		attrs = append(attrs, p.name("of the annotation"))
	}
	if attrs != nil && p.kind != syntax.Test {
		p.fault(attrs[0].Span, syntax.CodeMisplaced, "only tests have annotations here",
			"@persistent stands before a belief of an agent, @serial before a test")
	}
	pub := p.got(syntax.Pub)
	switch p.kind {
	case syntax.Mod:
		return p.modDecl(start, pub)
	case syntax.Use:
		return p.useDecl(start, pub)
	case syntax.Record:
		return p.recordDecl(start, pub)
	case syntax.Enum:
		return p.enumDecl(start, pub)
	case syntax.Const:
		return p.constDecl(start, pub)
	case syntax.Fn, syntax.Extern:
		f := p.funcDecl(start)
		f.Pub = pub
		return f
	case syntax.Agent:
		return p.agentDecl(start, pub)
	case syntax.Supervisor:
		return p.supervisorDecl(start, pub)
	case syntax.Tool:
		return p.toolDecl(start, pub)
	case syntax.Protocol:
		return p.protocolDecl(start, pub)
	case syntax.HandlerKeyword:
		return p.effectDecl(start, pub)
	case syntax.Test:
		return p.testDecl(start, attrs)
	case syntax.Run:
		return p.runDecl(start)
	}
	return p.badDecl(start)
}

func (p *parser) modDecl(start int32, pub bool) syntax.Decl {
	p.next()
	d := &syntax.ModDecl{Pub: pub, Name: p.name("of the module")}
	p.semicolon("after the module")
	d.Span = p.finish(start)
	return d
}

func (p *parser) useDecl(start int32, pub bool) syntax.Decl {
	p.next()
	d := &syntax.UseDecl{Pub: pub, Path: []*syntax.Ident{p.word("of the module")}}
	for last := false; !last && p.got(syntax.ColonColon); {
		switch {
		case p.got(syntax.Mul):
			d.Glob, last = true, true
		case p.got(syntax.LBrace):
			last = true
			p.list(syntax.RBrace, true, func() {
				n := syntax.UseName{Name: p.word("to be used")}
				if p.got(syntax.As) {
					n.Alias = p.name("it is used as")
				}
				d.Names = append(d.Names, n)
			})
		default:
			d.Path = append(d.Path, p.word("to be used"))
		}
	}
	if !d.Glob && d.Names == nil && p.got(syntax.As) {
		d.Alias = p.name("it is used as")
	}
	p.semicolon("after use")
	d.Span = p.finish(start)
	return d
}

func (p *parser) typeParams() []*syntax.Ident {
	if !p.got(syntax.Less) {
		return nil
	}
	var params []*syntax.Ident
	p.list(syntax.Greater, false, func() { params = append(params, p.name("of a type parameter")) })
	return params
}

func (p *parser) recordDecl(start int32, pub bool) syntax.Decl {
	p.next()
	d := &syntax.RecordDecl{Pub: pub, Name: p.name("of the record"), TypeParams: p.typeParams()}
	if p.expect(syntax.LBrace, "before the fields") {
		p.list(syntax.RBrace, true, func() {
			if p.kind == syntax.At {
				p.fault(p.here(), syntax.CodeMisplaced, "fields of records have no annotations",
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

// field parses name: type.
func (p *parser) field(start int32) *syntax.Field {
	f := &syntax.Field{Name: p.word("of the field")}
	if p.expect(syntax.Colon, "and the type of the field") || p.kind.IsName() && !p.onNewLine() {
		f.Type = p.typ()
	} else {
		f.Type = &syntax.BadType{Span: p.finish(p.start())}
	}
	f.Span = p.finish(start)
	return f
}

func (p *parser) enumDecl(start int32, pub bool) syntax.Decl {
	p.next()
	d := &syntax.EnumDecl{Pub: pub, Name: p.name("of the enum"), TypeParams: p.typeParams()}
	if p.expect(syntax.LBrace, "before the variants") {
		p.list(syntax.RBrace, true, func() {
			start := p.start()
			v := &syntax.Variant{Name: p.name("of the variant")}
			if p.got(syntax.LParen) {
				if p.kind == syntax.RParen {
					p.unexpected("a type", "a variant that carries nothing has no parentheses")
				}
				p.list(syntax.RParen, false, func() { v.Payload = append(v.Payload, p.typ()) })
			}
			v.Span = p.finish(start)
			d.Variants = append(d.Variants, v)
		})
	}
	d.Span = p.finish(start)
	return d
}

func (p *parser) constDecl(start int32, pub bool) syntax.Decl {
	p.next()
	d := &syntax.ConstDecl{Pub: pub, Name: p.name("of the constant")}
	if p.got(syntax.Colon) {
		d.Type = p.typ()
	}
	p.expect(syntax.Assign, "and the value of the constant")
	d.Value = p.expr()
	p.semicolon("after the constant")
	d.Span = p.finish(start)
	return d
}

// funcDecl parses a function. Only an extern function has no body.
func (p *parser) funcDecl(start int32) *syntax.FuncDecl {
	f := &syntax.FuncDecl{Extern: p.got(syntax.Extern)}
	p.signature(f)
	switch {
	case f.Extern:
		p.got(syntax.Semicolon)
	case p.kind == syntax.Semicolon:
		p.unexpected("the body of the function", "a function without a body is declared with extern fn")
		p.next()
	default:
		f.Body = p.block("before the body of the function")
	}
	f.Span = p.finish(start)
	return f
}

func (p *parser) signature(f *syntax.FuncDecl) {
	p.expect(syntax.Fn, "here")
	f.Name = p.name("of the function")
	f.TypeParams = p.typeParams()
	if p.expect(syntax.LParen, "before the parameters") {
		p.list(syntax.RParen, false, func() { f.Params = append(f.Params, p.param(true)) })
	}
	switch {
	case p.got(syntax.Arrow):
		f.Result = p.typ()
	case p.kind == syntax.FatArrow || p.kind == syntax.Colon:
		p.fault(p.here(), syntax.CodeForeign, "expected `->` before the type of the result, found `"+p.text()+"`",
			"write -> before the type")
		p.next()
		f.Result = p.typ()
	}
	f.Fails = p.got(syntax.Fails)
}

// param parses name: type.
func (p *parser) param(typed bool) *syntax.Param {
	start := p.start()
	a := &syntax.Param{Name: p.name("of the parameter")}
	if p.got(syntax.Colon) {
		a.Type = p.typ()
	} else if typed {
		p.missing(syntax.Colon, "and the type of the parameter", "write it as name: Type")
		a.Type = &syntax.BadType{Span: p.finish(p.start())}
	}
	a.Span = p.finish(start)
	return a
}

func (p *parser) testDecl(start int32, attrs []*syntax.Ident) syntax.Decl {
	p.next()
	d := &syntax.TestDecl{Attrs: attrs, Name: p.plainString("of the test")}
	d.Body = p.block("before the body of the test")
	d.Span = p.finish(start)
	return d
}

// plainString parses a string without interpolation.
func (p *parser) plainString(what string) *syntax.StringLit {
	start := p.start()
	switch p.kind {
	case syntax.String:
		return p.stringLit()
	case syntax.TemplateHead:
		p.fault(p.here(), syntax.CodeUnexpected, "the string "+what+" cannot have interpolations",
			"write \\{ for a brace that is text")
		p.template()
	default:
		p.unexpected("the string "+what, "")
	}
	return &syntax.StringLit{Span: p.finish(start)}
}

func (p *parser) runDecl(start int32) syntax.Decl {
	p.next()
	d := &syntax.RunDecl{Target: p.path("of the agent or supervisor to run", false)}
	if p.kind == syntax.LBrace {
		d.Braces = true
		d.Inits = p.inits()
	}
	p.semicolon("after run")
	d.Span = p.finish(start)
	return d
}

// fieldInit parses name: value.
func (p *parser) fieldInit() *syntax.FieldInit {
	start := p.start()
	f := &syntax.FieldInit{Name: p.word("of the field")}
	if p.expect(syntax.Colon, "and the value of `"+truncate(f.Name.Name)+"`") || p.got(syntax.Assign) ||
		p.atExpr() && !p.onNewLine() {
		f.Value = p.expr()
	} else {
		f.Value = &syntax.BadExpr{Span: p.finish(p.start())}
	}
	f.Span = p.finish(start)
	return f
}

// inits parses { name: value, … }.
func (p *parser) inits() []*syntax.FieldInit {
	var inits []*syntax.FieldInit
	defer p.inside()()
	p.expect(syntax.LBrace, "here")
	p.list(syntax.RBrace, true, func() { inits = append(inits, p.fieldInit()) })
	return inits
}

// inside prepares for the contents of brackets, where a brace can start a record. It returns a
// function that restores the previous state.
func (p *parser) inside() func() { return p.setHead(false) }

// setHead sets head and returns a function that restores it.
func (p *parser) setHead(head bool) func() {
	before := p.head
	p.head = head
	return func() { p.head = before }
}

// semicolon consumes the semicolon that ends a declaration or statement.
func (p *parser) semicolon(where string) {
	if p.got(syntax.Semicolon) {
		return
	}
	onNewLine := p.onNewLine()
	p.missing(syntax.Semicolon, where, "")
	if !onNewLine {
		p.skip(func() bool { return p.kind == syntax.Semicolon || p.onNewLine() })
		p.got(syntax.Semicolon)
	}
}

// bad returns the span of something that could not be parsed.
func (p *parser) bad() source.Span { return p.finish(p.start()) }
