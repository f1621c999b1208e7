package syntax

func (p *parser) agentDecl(begin int32, pub bool) Decl {
	p.next()
	d := &AgentDecl{Pub: pub, Name: p.name("of the agent")}
	for {
		start := p.start()
		switch p.kind {
		case Receives:
			p.next()
			c := &ReceivesClause{Type: p.typ()}
			c.Span = p.finish(start)
			d.Clauses = append(d.Clauses, c)
		case Follows:
			p.next()
			c := &FollowsClause{}
			for {
				r := Role{Protocol: p.name("of the protocol")}
				p.expect(As, "and the role")
				r.Role = p.name("of the role")
				c.Roles = append(c.Roles, r)
				if !p.got(Comma) {
					break
				}
			}
			c.Span = p.finish(start)
			d.Clauses = append(d.Clauses, c)
		case Use, Uses:
			d.Clauses = append(d.Clauses, p.useClause())
		default:
			p.braces(Use, func() { p.member(d) })
			d.Span = p.finish(begin)
			return d
		}
	}
}

func (p *parser) useClause() *UseClause {
	start := p.start()
	c := &UseClause{Uses: p.kind == Uses}
	p.next()
	for {
		c.Tools = append(c.Tools, p.name("of the tool"))
		if !p.got(Comma) {
			break
		}
	}
	c.Span = p.finish(start)
	return c
}

// member reads what stands in an agent.
func (p *parser) member(d *AgentDecl) {
	start := p.start()
	var m AgentPart
	switch {
	case p.kind == Semicolon || p.kind == Comma:
		p.next()
		return
	case p.kind == At:
		p.next()
		if word := p.text(); !p.kind.IsWord() || word != "persistent" {
			p.fault(p.here(), CodeUnexpected, "unknown annotation `@"+brief(word)+"`",
				"beliefs that are kept are marked with @persistent")
		}
		if p.kind.IsWord() {
			p.next()
		}
		f := p.belief(start)
		f.Persistent = true
		m = f
	case p.atField() || p.kind == Name && p.ahead(1).IsName() && !p.onNewLineAhead() && p.ahead(2) != Colon:
		m = p.belief(start)
	case p.kind == On:
		m = p.handler()
	case p.kind == Use || p.kind == Uses:
		m = p.useClause()
		p.got(Semicolon)
	default:
		m = p.notMember(start)
	}
	d.Members = append(d.Members, m)
}

// belief reads name: type = value.
func (p *parser) belief(start int32) *Field {
	f := p.field(start)
	if p.got(Assign) {
		f.Value = p.expr()
	}
	if !p.got(Comma) {
		p.got(Semicolon)
	}
	f.Span = p.finish(start)
	return f
}

// notMember reads what does not belong into an agent.
func (p *parser) notMember(start int32) AgentPart {
	switch {
	case p.kind == Name && p.ahead(1).IsWord() && p.ahead(2) == Colon && p.text() == "belief":
		p.fault(p.here(), CodeForeign, "`belief` is a word of an earlier Sage", "write only name: Type")
		p.next()
		return p.belief(start)
	case p.kind == Let:
		p.fault(p.here(), CodeMisplaced, "`let` stands outside of a handler",
			"a belief of an agent is written name: Type, a variable stands in a handler such as on start { }")
		p.stmt(&Block{})
	case p.atDecl():
		what := p.text()
		help := "declare it at the top of the file"
		if p.kind == Fn {
			help = "declare the function at the top of the file, and give it what it needs of self as arguments"
		}
		p.fault(p.here(), CodeMisplaced, "`"+what+"` cannot stand in an agent", help)
		p.decl()
	case p.atStmt():
		p.fault(p.here(), CodeMisplaced, "a statement stands outside of a handler",
			"put it into a handler such as on start { }")
		p.stmt(&Block{})
	case p.kind == LParen || p.kind == Name && (p.ahead(1) == LParen || p.ahead(1) == Dot):
		p.fault(p.here(), CodeMisplaced, "an expression stands outside of a handler",
			"put it into a handler such as on start { }")
		p.stmt(&Block{})
	default:
		p.unexpected("a belief or a handler", "an agent consists of `name: Type`, `@persistent name: Type`, `use "+
			"Tool` and `on event { }`")
		p.next()
		p.skip(func() bool { return p.atField() || p.kind == On || p.kind == At })
	}
	return &BadPart{p.finish(start)}
}

// handler reads on event { }.
func (p *parser) handler() *Handler {
	start := p.start()
	p.next()
	h := &Handler{}
	known := false
	if p.kind.IsWord() {
		h.Event, known = eventOf(p.text())
	}
	if !known {
		p.unexpected("an event", "the events are start, waking, resting, error(e), message(m: T), pause and resume")
	}
	h.Word = p.word("of the event")
	if p.got(LParen) {
		if p.kind != RParen {
			h.Param = p.param(h.Event == EventMessage)
		}
		p.expect(RParen, "after the event")
	}
	if h.Param != nil && known && h.Event != EventError && h.Event != EventMessage {
		p.fault(h.Param.Span, CodeUnexpected, "on "+h.Word.Name+" is given nothing",
			"only on error(e) and on message(m: T) are")
	}
	h.Body = p.block("before the body of the handler")
	h.Span = p.finish(start)
	return h
}

func eventOf(word string) (Event, bool) {
	if word == "stop" {
		return EventResting, true
	}
	for e := range events {
		if e.String() == word {
			return e, true
		}
	}
	return events, false
}

func (p *parser) supervisorDecl(start int32, pub bool) Decl {
	p.next()
	d := &SupervisorDecl{Pub: pub, Name: p.name("of the supervisor")}
	p.braces(EOF, func() {
		switch {
		case p.kind == Comma || p.kind == Semicolon:
			p.next()
		case p.atField() && !(p.kind == Children && p.ahead(2) == LBrace) || p.kind == Name &&
			startsExpr(p.ahead(1)) && !p.onNewLineAhead():
			d.Members = append(d.Members, p.fieldInit())
		case p.kind == Children:
			d.Members = append(d.Members, p.children())
		default:
			p.unexpected("a setting or `children`", "a supervisor consists of `strategy: "+
				"OneForOne` and `children { … }`")
			p.skip(func() bool { return p.kind == Children || p.onNewLine() && p.atField() })
		}
	})
	d.Span = p.finish(start)
	return d
}

func (p *parser) children() *ChildrenBlock {
	start := p.start()
	p.next()
	if p.kind == Colon {
		p.fault(p.here(), CodeUnexpected, "no colon stands after `children`", "write children { … }")
		p.next()
	}
	b := &ChildrenBlock{}
	p.braces(EOF, func() {
		switch {
		case p.kind == Comma || p.kind == Semicolon:
			p.next()
		case p.kind.IsName() || p.kind == String:
			b.Children = append(b.Children, p.child())
		default:
			p.unexpected("a child", "a child is written Name { restart: Permanent }")
			p.skip(func() bool { return p.kind.IsName() && p.ahead(1) == LBrace })
		}
	})
	b.Span = p.finish(start)
	return b
}

// childName is the name of a child behind as.
func (p *parser) childName(c *Child) *Ident {
	const help = "a name is written without quotes: Name as eu { restart: Permanent }"
	switch {
	case c.Process != nil:
		p.fault(p.here(), CodeUnexpected, "a process has the name that stands in the project's file",
			"remove `as` and the name")
	case p.kind == String:
		p.fault(p.here(), CodeUnexpected, "the name of a child has no quotes", help)
		p.next()
		return nil
	}
	name := p.name("of the child")
	if c.Process != nil {
		return nil
	}
	return name
}

func (p *parser) child() *Child {
	start := p.start()
	c := &Child{}
	if p.kind == String {
		c.Process = p.stringLit()
	} else {
		c.Target = p.path("of the child", false)
	}
	if p.got(As) {
		c.Name = p.childName(c)
	}
	if p.kind != LBrace {
		p.missing(LBrace, "after the child", "a child is written Name { restart: Permanent }")
		p.skip(func() bool { return p.onNewLine() || p.kind == Comma })
		c.Span = p.finish(start)
		return c
	}
	p.braces(EOF, func() {
		start := p.start()
		switch {
		case p.kind == Comma || p.kind == Semicolon:
			p.next()
		case p.kind == HandlerWord && p.ahead(1).IsName():
			p.next()
			e := &EffectBinding{Effect: p.name("of the effect")}
			p.expect(Colon, "and the handler")
			e.Handler = p.name("of the handler")
			e.Span = p.finish(start)
			c.Parts = append(c.Parts, e)
		case p.atField() || p.kind.IsName() && startsExpr(p.ahead(1)) && !p.onNewLineAhead():
			c.Parts = append(c.Parts, p.fieldInit())
		default:
			p.unexpected("a belief or `restart`", "what a child begins with is written name: value")
			p.skip(func() bool { return p.atField() || p.kind == Comma })
		}
	})
	c.Span = p.finish(start)
	return c
}
