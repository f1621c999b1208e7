package parser

import "github.com/coppice-dev/coppice/sage/syntax"

func (p *parser) toolDecl(start int32, pub bool) syntax.Decl {
	p.next()
	d := &syntax.ToolDecl{Pub: pub, Name: p.name("of the tool")}
	p.braces(syntax.Fn, func() {
		start := p.start()
		f := &syntax.FuncDecl{}
		for p.kind == syntax.Hash {
			f.Attrs = append(f.Attrs, p.attr())
		}
		if p.kind != syntax.Fn {
			p.unexpected("`fn`", "a tool consists of functions without bodies: fn name(x: T) -> R")
			p.skip(func() bool { return p.kind == syntax.Fn || p.kind == syntax.Hash })
			return
		}
		p.signature(f)
		p.gotSeparator()
		f.Span = p.finish(start)
		d.Funcs = append(d.Funcs, f)
	})
	d.Span = p.finish(start)
	return d
}

func (p *parser) attr() *syntax.Attr {
	start := p.start()
	p.next()
	p.expect(syntax.LBracket, "after #")
	a := &syntax.Attr{Name: p.word("of the attribute")}
	if p.got(syntax.Assign) {
		a.Value = p.plainString("of the attribute")
	}
	p.expect(syntax.RBracket, "after the attribute")
	a.Span = p.finish(start)
	return a
}

func (p *parser) protocolDecl(start int32, pub bool) syntax.Decl {
	p.next()
	d := &syntax.ProtocolDecl{Pub: pub, Name: p.name("of the protocol")}
	p.braces(syntax.EOF, func() {
		s := &syntax.ProtocolStep{}
		start := p.start()
		s.From = p.name("of the sender")
		p.expect(syntax.Arrow, "and the receiver")
		s.To = p.name("of the receiver")
		p.expect(syntax.Colon, "and the type of the message")
		s.Message = p.typ()
		p.gotSeparator()
		s.Span = p.finish(start)
		d.Steps = append(d.Steps, s)
	})
	d.Span = p.finish(start)
	return d
}

func (p *parser) effectDecl(start int32, pub bool) syntax.Decl {
	p.next()
	d := &syntax.EffectDecl{Pub: pub, Name: p.name("of the handler")}
	if p.expect(syntax.Handles, "and what is handled") {
		d.Effect = p.name("of what is handled")
	} else {
		d.Effect = &syntax.Ident{Span: p.finish(p.start())}
	}
	p.braces(syntax.EOF, func() {
		if !p.atField() {
			p.unexpected("a setting", "settings are written as name: value")
			p.skip(p.atField)
			return
		}
		d.Inits = append(d.Inits, p.fieldInit())
		p.got(syntax.Comma)
	})
	d.Span = p.finish(start)
	return d
}

// badDecl parses something that is not a declaration and reports what it may have been meant to be.
func (p *parser) badDecl(start int32) syntax.Decl {
	defer func() {
		if p.end() <= start {
			p.next()
		}
	}()
	switch {
	case p.kind == syntax.RBrace:
		p.fault(p.here(), syntax.CodeUnexpected, "this } closes nothing",
			"remove it, or look for a } too many before it")
		p.next()
	case p.kind == syntax.Semicolon:
		p.next()
		return nil
	case p.kind == syntax.On && p.ahead(1).IsWord():
		p.fault(p.here(), syntax.CodeMisplaced, "`on` stands outside of an agent",
			"handlers stand in the braces of an agent; is there a } too many before it?")
		p.handler()
	case p.foreign():
	case p.atStmt() || p.atExpr():
		p.fault(p.here(), syntax.CodeMisplaced, "a statement stands outside of a function",
			"put it into a function, or into on start of an agent")
		p.stmt(&syntax.Block{})
	default:
		p.unexpected("a declaration", "a file consists of agent, supervisor, fn, record, enum, "+
			"const, test, use, mod and run")
		p.skipDecl()
	}
	return &syntax.BadDecl{Span: p.finish(start)}
}

// skipDecl skips to the next declaration.
func (p *parser) skipDecl() {
	p.next()
	for p.kind != syntax.EOF && !(p.onNewLine() && (p.atDecl() || p.kind == syntax.At)) {
		p.next()
	}
}

// foreign reports keywords of other languages that start a declaration.
func (p *parser) foreign() bool {
	if p.kind != syntax.Name || p.ahead(1) != syntax.Name {
		return false
	}
	meant := foreignDecls[p.text()]
	if meant == "" {
		return false
	}
	p.foreignWord(meant)
	p.skipDecl()
	return true
}

// foreignDecls maps declaration keywords of other languages to those of Sage.
var foreignDecls = map[string]string{
	"func": "fn", "function": "fn", "def": "fn", "fun": "fn", "sub": "fn", "proc": "fn",
	"struct": "record", "class": "record", "type": "record", "interface": "record", "object": "record",
	"import": "use", "require": "use", "include": "use", "from": "use",
	"actor": "agent", "steward": "agent", "process": "agent",
}

// foreignWord reports that the current token is not a word of Sage.
func (p *parser) foreignWord(meant string) {
	p.fault(p.here(), syntax.CodeForeign, "`"+p.text()+"` is not a word of Sage", "here it is `"+meant+"`")
}
