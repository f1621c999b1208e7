package syntax

// condition reads the condition of if and while.
func (p *parser) condition() Expr {
	x := p.headExpr()
	if p.kind == Assign {
		p.fault(p.here(), CodeUnexpected, "`=` assigns and cannot stand in a condition", "write == to compare")
		p.next()
		p.headExpr()
	}
	return x
}

// headExpr reads an expression that a block follows.
func (p *parser) headExpr() Expr {
	head := p.head
	p.head = true
	x := p.expr()
	p.head = head
	return x
}

func (p *parser) ifExpr() Expr {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.bad()}
	}
	p.next()
	x := &IfExpr{Cond: p.condition()}
	if p.is("then") {
		p.fault(p.here(), CodeForeign, "`then` is not a word of Sage",
			"the condition is followed by a block: if c { … }")
		p.next()
	}
	x.Then = p.block("after the condition")
	if p.kind == Else && p.ahead(1) != Colon {
		p.next()
		if p.kind == If {
			x.Else = p.ifExpr()
		} else {
			x.Else = &BlockExpr{p.block("after else")}
		}
	}
	x.Span = p.finish(start)
	return x
}

func (p *parser) matchExpr() Expr {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.bad()}
	}
	p.next()
	m := &MatchExpr{X: p.headExpr()}
	defer p.inside()()
	p.braces(EOF, func() {
		if p.kind == Comma || p.kind == Semicolon {
			p.next()
			return
		}
		if p.is("case") || p.is("default") {
			p.fault(p.here(), CodeForeign, "`"+p.text()+"` is not a word of Sage",
				"an arm is written pattern => value; _ matches all")
		}
		m.Arms = append(m.Arms, p.arm())
	})
	m.Span = p.finish(start)
	return m
}

func (p *parser) arm() *MatchArm {
	start := p.start()
	a := &MatchArm{Pattern: p.pattern()}
	if p.got(If) {
		a.Guard = p.expr()
	}
	if p.kind == Arrow || p.kind == Colon {
		p.fault(p.here(), CodeForeign, "expected `=>` after the pattern, found `"+p.text()+"`", "")
		p.next()
	} else if !p.expect(FatArrow, "after the pattern") {
		a.Body = &BadExpr{p.bad()}
		p.skip(func() bool { return p.kind == Comma || p.kind == FatArrow })
		if !p.got(FatArrow) {
			a.Span = p.finish(start)
			return a
		}
	}
	a.Body = p.armBody()
	a.Span = p.finish(start)
	if blockLike(a.Body) || p.kind == Comma || p.atEnd() {
		p.got(Comma)
		return a
	}
	if p.kind == Semicolon {
		p.fault(p.here(), CodeUnexpected, "an arm ends with a comma",
			"write , instead of ;, or put statements into braces")
		p.next()
	} else if !p.onNewLine() {
		p.missing(Comma, "after the arm", "")
		p.skip(func() bool { return p.kind == Comma || p.onNewLine() })
		p.got(Comma)
	}
	return a
}

func (p *parser) armBody() Expr {
	start := p.start()
	var x Expr
	if p.kind == LBrace {
		x = p.braced(true)
		if _, ok := x.(*BlockExpr); ok {
			return x
		}
		x = p.exprFrom(x, start)
	} else {
		x = p.expr()
	}
	if p.kind >= Assign && p.kind <= ConcatAssign {
		p.fault(p.here(), CodeMisplaced, "an assignment is no value", "put it into braces: => { x = v; }")
		p.next()
		p.expr()
		return &BadExpr{p.finish(start)}
	}
	return x
}

// braced reads { }, which is a map if a colon follows its first expression. An
// empty one is a block if block is set.
func (p *parser) braced(block bool) Expr {
	opening := p.at
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.bad()}
	}
	p.next()
	b := &Block{}
	if p.kind == RBrace && !block {
		p.next()
		return &MapLit{Span: p.finish(start)}
	}
	if p.atExpr() && !p.atBlockStmt() {
		undo := p.inside()
		first := p.start()
		key := p.expr()
		if p.kind == Colon {
			m := &MapLit{Entries: []*MapEntry{p.entry(key, first)}}
			if p.kind != RBrace && !p.got(Comma) && !p.onNewLine() {
				p.unexpected("`,` or `}`", "")
			}
			p.list(RBrace, true, func() {
				first := p.start()
				m.Entries = append(m.Entries, p.entry(p.expr(), first))
			})
			undo()
			m.Span = p.finish(start)
			return m
		}
		p.exprStmtRest(b, first, key)
		undo()
	}
	return &BlockExpr{p.blockRest(opening, b)}
}

// atBlockStmt reports whether a statement begins here that is read otherwise
// than as an expression.
func (p *parser) atBlockStmt() bool {
	switch p.kind {
	case If, Match, LBrace:
		return p.kind != LBrace
	}
	return p.kind == Mock && p.atMock() || p.atDecl()
}

func (p *parser) entry(key Expr, start int32) *MapEntry {
	e := &MapEntry{Key: key}
	p.expect(Colon, "after the key")
	e.Value = p.expr()
	e.Span = p.finish(start)
	return e
}
