package syntax

func (p *parser) toolDecl(start int32, pub bool) Decl {
	p.next()
	d := &ToolDecl{Pub: pub, Name: p.name("of the tool")}
	p.braces(Fn, func() {
		start := p.start()
		f := &FuncDecl{}
		for p.kind == Hash {
			f.Attrs = append(f.Attrs, p.attr())
		}
		if p.kind != Fn {
			p.unexpected("`fn`", "a tool consists of functions without bodies: fn name(x: T) -> R")
			p.skip(func() bool { return p.kind == Fn || p.kind == Hash })
			return
		}
		p.signature(f)
		if !p.got(Semicolon) {
			p.got(Comma)
		}
		f.Span = p.finish(start)
		d.Funcs = append(d.Funcs, f)
	})
	d.Span = p.finish(start)
	return d
}

func (p *parser) attr() *Attr {
	start := p.start()
	p.next()
	p.expect(LBracket, "after #")
	a := &Attr{Name: p.word("of the attribute")}
	if p.got(Assign) {
		a.Value = p.plainString("of the attribute")
	}
	p.expect(RBracket, "after the attribute")
	a.Span = p.finish(start)
	return a
}

func (p *parser) protocolDecl(start int32, pub bool) Decl {
	p.next()
	d := &ProtocolDecl{Pub: pub, Name: p.name("of the protocol")}
	p.braces(EOF, func() {
		s := &ProtocolStep{}
		start := p.start()
		s.From = p.name("of who sends")
		p.expect(Arrow, "and who receives")
		s.To = p.name("of who receives")
		p.expect(Colon, "and the type of the message")
		s.Message = p.typ()
		if !p.got(Comma) {
			p.got(Semicolon)
		}
		s.Span = p.finish(start)
		d.Steps = append(d.Steps, s)
	})
	d.Span = p.finish(start)
	return d
}

func (p *parser) effectDecl(start int32, pub bool) Decl {
	p.next()
	d := &EffectDecl{Pub: pub, Name: p.name("of the handler")}
	if p.expect(Handles, "and what is handled") {
		d.Effect = p.name("of what is handled")
	} else {
		d.Effect = &Ident{Span: p.finish(p.start())}
	}
	p.braces(EOF, func() {
		if !p.atField() {
			p.unexpected("a setting", "settings are written as name: value")
			p.skip(p.atField)
			return
		}
		d.Inits = append(d.Inits, p.fieldInit())
		p.got(Comma)
	})
	d.Span = p.finish(start)
	return d
}

// notDecl reads what is no declaration, and says what it may have been meant to be.
func (p *parser) notDecl(start int32) Decl {
	defer func() {
		if p.end() <= start {
			p.next()
		}
	}()
	switch {
	case p.kind == RBrace:
		p.fault(p.here(), CodeUnexpected, "this } closes nothing", "remove it, or look for a } too many before it")
		p.next()
	case p.kind == Semicolon:
		p.next()
		return nil
	case p.kind == On && p.ahead(1).IsWord():
		p.fault(p.here(), CodeMisplaced, "`on` stands outside of an agent",
			"handlers stand in the braces of an agent; is there a } too many before it?")
		p.handler()
	case p.foreign():
	case p.atStmt() || p.atExpr():
		p.fault(p.here(), CodeMisplaced, "a statement stands outside of a function",
			"put it into a function, or into on start of an agent")
		p.stmt(&Block{})
	default:
		p.unexpected("a declaration", "a file consists of agent, supervisor, fn, record, enum, "+
			"const, test, use, mod and run")
		p.skipDecl()
	}
	return &BadDecl{p.finish(start)}
}

// skipDecl goes to the next declaration.
func (p *parser) skipDecl() {
	p.next()
	for p.kind != EOF && !(p.onNewLine() && (p.atDecl() || p.kind == At)) {
		p.next()
	}
}

// foreign reports words with which declarations begin in other languages.
func (p *parser) foreign() bool {
	if p.kind != Name || p.ahead(1) != Name {
		return false
	}
	word := p.text()
	meant := ""
	switch word {
	case "func", "function", "def", "fun", "sub", "proc":
		meant = "fn"
	case "struct", "class", "type", "interface", "object":
		meant = "record"
	case "import", "require", "include", "from":
		meant = "use"
	case "actor", "steward", "process":
		meant = "agent"
	default:
		return false
	}
	p.fault(p.here(), CodeForeign, "`"+word+"` is not a word of Sage", "here it is `"+meant+"`")
	p.skipDecl()
	return true
}
