package parser

import "github.com/coppice-dev/coppice/sage/syntax"

func (p *parser) agentDecl(begin int32, pub bool) syntax.Decl {
	p.next()
	d := &syntax.AgentDecl{Pub: pub, Name: p.name("of the agent")}
	for {
		start := p.start()
		switch p.kind {
		case syntax.Receives:
			p.next()
			c := &syntax.ReceivesClause{Type: p.typ()}
			c.Span = p.finish(start)
			d.Clauses = append(d.Clauses, c)
		case syntax.Follows:
			p.next()
			c := &syntax.FollowsClause{}
			for more := true; more; more = p.got(syntax.Comma) {
				r := syntax.Role{Protocol: p.name("of the protocol")}
				p.expect(syntax.As, "and the role")
				r.Role = p.name("of the role")
				c.Roles = append(c.Roles, r)
			}
			c.Span = p.finish(start)
			d.Clauses = append(d.Clauses, c)
		case syntax.Use, syntax.Uses:
			d.Clauses = append(d.Clauses, p.useClause())
		default:
			p.braces(syntax.Use, func() { p.member(d) })
			d.Span = p.finish(begin)
			return d
		}
	}
}

func (p *parser) useClause() *syntax.UseClause {
	start := p.start()
	c := &syntax.UseClause{Uses: p.kind == syntax.Uses}
	p.next()
	for more := true; more; more = p.got(syntax.Comma) {
		c.Tools = append(c.Tools, p.name("of the tool"))
	}
	c.Span = p.finish(start)
	return c
}

// member parses a member of an agent.
func (p *parser) member(d *syntax.AgentDecl) {
	start := p.start()
	var m syntax.AgentPart
	switch {
	case p.gotSeparator():
		return
	case p.kind == syntax.At:
		p.next()
		if word := p.text(); !p.kind.IsWord() || word != "persistent" {
			p.fault(p.here(), syntax.CodeUnexpected, "unknown annotation `@"+truncate(word)+"`",
				"beliefs that are kept are marked with @persistent")
		}
		if p.kind.IsWord() {
			p.next()
		}
		f := p.belief(start)
		f.Persistent = true
		m = f
	case p.atField() || p.kind == syntax.Name && p.ahead(1).IsName() && !p.onNewLineAhead() &&
		p.ahead(2) != syntax.Colon:
		m = p.belief(start)
	case p.kind == syntax.On:
		m = p.handler()
	case p.kind == syntax.Use || p.kind == syntax.Uses:
		m = p.useClause()
		p.got(syntax.Semicolon)
	default:
		m = p.badMember(start)
	}
	d.Members = append(d.Members, m)
}

// belief parses name: type = value.
func (p *parser) belief(start int32) *syntax.Field {
	f := p.field(start)
	if p.got(syntax.Assign) {
		f.Value = p.expr()
	}
	p.gotSeparator()
	f.Span = p.finish(start)
	return f
}

// badMember parses and reports something that cannot be a member of an agent.
func (p *parser) badMember(start int32) syntax.AgentPart {
	switch {
	case p.kind == syntax.Name && p.ahead(1).IsWord() && p.ahead(2) == syntax.Colon && p.text() == "belief":
		p.fault(p.here(), syntax.CodeForeign, "`belief` is a word of an earlier Sage", "write only name: Type")
		p.next()
		return p.belief(start)
	case p.kind == syntax.Let:
		p.fault(p.here(), syntax.CodeMisplaced, "`let` stands outside of a handler",
			"a belief of an agent is written name: Type, a variable stands in a handler such as on start { }")
		p.stmt(&syntax.Block{})
	case p.atDecl():
		help := "declare it at the top of the file"
		if p.kind == syntax.Fn {
			help = "declare the function at the top of the file, and give it what it needs of self as arguments"
		}
		p.fault(p.here(), syntax.CodeMisplaced, "`"+p.text()+"` cannot stand in an agent", help)
		p.decl()
	case p.atStmt():
		p.fault(p.here(), syntax.CodeMisplaced, "a statement stands outside of a handler",
			"put it into a handler such as on start { }")
		p.stmt(&syntax.Block{})
	case p.kind == syntax.LParen || p.kind == syntax.Name && (p.ahead(1) == syntax.LParen || p.ahead(1) == syntax.Dot):
		p.fault(p.here(), syntax.CodeMisplaced, "an expression stands outside of a handler",
			"put it into a handler such as on start { }")
		p.stmt(&syntax.Block{})
	default:
		p.unexpected("a belief or a handler", "an agent consists of `name: Type`, `@persistent name: Type`, `use "+
			"Tool` and `on event { }`")
		p.next()
		p.skip(func() bool { return p.atField() || p.kind == syntax.On || p.kind == syntax.At })
	}
	return &syntax.BadPart{Span: p.finish(start)}
}

// handler parses on event { }.
func (p *parser) handler() *syntax.Handler {
	start := p.start()
	p.next()
	h := &syntax.Handler{}
	known := false
	if p.kind.IsWord() {
		h.Event, known = eventOf(p.text())
	}
	if !known {
		p.unexpected("an event", "the events are start, waking, resting, error(e), message(m: T), pause and resume")
	}
	h.Word = p.word("of the event")
	if p.got(syntax.LParen) {
		if p.kind != syntax.RParen {
			h.Param = p.param(h.Event == syntax.EventMessage)
		}
		p.expect(syntax.RParen, "after the event")
	}
	if h.Param != nil && known && h.Event != syntax.EventError && h.Event != syntax.EventMessage {
		p.fault(h.Param.Span, syntax.CodeUnexpected, "on "+h.Word.Name+" takes no parameter",
			"only on error(e) and on message(m: T) take one")
	}
	h.Body = p.block("before the body of the handler")
	h.Span = p.finish(start)
	return h
}

func eventOf(word string) (syntax.Event, bool) {
	if word == "stop" {
		return syntax.EventResting, true
	}
	for e := syntax.EventStart; e <= syntax.EventMessage; e++ {
		if e.String() == word {
			return e, true
		}
	}
	return 0, false
}

func (p *parser) supervisorDecl(start int32, pub bool) syntax.Decl {
	p.next()
	d := &syntax.SupervisorDecl{Pub: pub, Name: p.name("of the supervisor")}
	p.braces(syntax.EOF, func() {
		switch {
		case p.gotSeparator():
		case p.atField() && !(p.kind == syntax.Children && p.ahead(2) == syntax.LBrace) || p.kind == syntax.Name &&
			startsExpr(p.ahead(1)) && !p.onNewLineAhead():
			d.Members = append(d.Members, p.fieldInit())
		case p.kind == syntax.Children:
			d.Members = append(d.Members, p.children())
		default:
			p.unexpected("a setting or `children`", "a supervisor consists of `strategy: "+
				"OneForOne` and `children { … }`")
			p.skip(func() bool { return p.kind == syntax.Children || p.onNewLine() && p.atField() })
		}
	})
	d.Span = p.finish(start)
	return d
}

func (p *parser) children() *syntax.ChildrenBlock {
	start := p.start()
	p.next()
	if p.kind == syntax.Colon {
		p.fault(p.here(), syntax.CodeUnexpected, "no colon stands after `children`", "write children { … }")
		p.next()
	}
	b := &syntax.ChildrenBlock{}
	p.braces(syntax.EOF, func() {
		switch {
		case p.gotSeparator():
		case p.kind.IsName() || p.kind == syntax.String:
			b.Children = append(b.Children, p.child())
		default:
			p.unexpected("a child", "a child is written Name { restart: Permanent }")
			p.skip(func() bool { return p.kind.IsName() && p.ahead(1) == syntax.LBrace })
		}
	})
	b.Span = p.finish(start)
	return b
}

// childName parses the name of a child after as.
func (p *parser) childName(c *syntax.Child) *syntax.Ident {
	const help = "a name is written without quotes: Name as eu { restart: Permanent }"
	switch {
	case c.Process != nil:
		p.fault(p.here(), syntax.CodeUnexpected, "a process has the name that stands in the project's file",
			"remove `as` and the name")
	case p.kind == syntax.String:
		p.fault(p.here(), syntax.CodeUnexpected, "the name of a child has no quotes", help)
		p.next()
		return nil
	}
	name := p.name("of the child")
	if c.Process != nil {
		return nil
	}
	return name
}

func (p *parser) child() *syntax.Child {
	start := p.start()
	c := &syntax.Child{}
	if p.kind == syntax.String {
		c.Process = p.stringLit()
	} else {
		c.Target = p.path("of the child", false)
	}
	if p.got(syntax.As) {
		c.Name = p.childName(c)
	}
	if p.kind != syntax.LBrace {
		p.missing(syntax.LBrace, "after the child", "a child is written Name { restart: Permanent }")
		p.skip(func() bool { return p.onNewLine() || p.kind == syntax.Comma })
		c.Span = p.finish(start)
		return c
	}
	p.braces(syntax.EOF, func() {
		start := p.start()
		switch {
		case p.gotSeparator():
		case p.kind == syntax.HandlerKeyword && p.ahead(1).IsName():
			p.next()
			e := &syntax.EffectBinding{Effect: p.name("of the effect")}
			p.expect(syntax.Colon, "and the handler")
			e.Handler = p.name("of the handler")
			e.Span = p.finish(start)
			c.Parts = append(c.Parts, e)
		case p.atField() || p.kind.IsName() && startsExpr(p.ahead(1)) && !p.onNewLineAhead():
			c.Parts = append(c.Parts, p.fieldInit())
		default:
			p.unexpected("a belief or `restart`", "what a child begins with is written name: value")
			p.skip(func() bool { return p.atField() || p.kind == syntax.Comma })
		}
	})
	c.Span = p.finish(start)
	return c
}
