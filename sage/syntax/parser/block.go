package parser

import "github.com/coppice-dev/coppice/sage/syntax"

// condition parses the condition of if and while.
func (p *parser) condition() syntax.Expr {
	x := p.headExpr()
	if p.kind == syntax.Assign {
		p.fault(p.here(), syntax.CodeUnexpected, "`=` assigns and cannot stand in a condition", "write == to compare")
		p.next()
		p.headExpr()
	}
	return x
}

// headExpr parses an expression that a block follows.
func (p *parser) headExpr() syntax.Expr {
	defer p.setHead(true)()
	return p.expr()
}

func (p *parser) ifExpr() syntax.Expr {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &syntax.BadExpr{Span: p.bad()}
	}
	p.next()
	x := &syntax.IfExpr{Cond: p.condition()}
	if p.is("then") {
		p.fault(p.here(), syntax.CodeForeign, "`then` is not a word of Sage",
			"the condition is followed by a block: if c { … }")
		p.next()
	}
	x.Then = p.block("after the condition")
	if p.kind == syntax.Else && p.ahead(1) != syntax.Colon {
		p.next()
		if p.kind == syntax.If {
			x.Else = p.ifExpr()
		} else {
			x.Else = &syntax.BlockExpr{Block: p.block("after else")}
		}
	}
	x.Span = p.finish(start)
	return x
}

func (p *parser) matchExpr() syntax.Expr {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &syntax.BadExpr{Span: p.bad()}
	}
	p.next()
	m := &syntax.MatchExpr{X: p.headExpr()}
	defer p.inside()()
	p.braces(syntax.EOF, func() {
		if p.gotSeparator() {
			return
		}
		if p.is("case") || p.is("default") {
			p.fault(p.here(), syntax.CodeForeign, "`"+p.text()+"` is not a word of Sage",
				"an arm is written pattern => value; _ matches all")
		}
		m.Arms = append(m.Arms, p.arm())
	})
	m.Span = p.finish(start)
	return m
}

func (p *parser) arm() *syntax.MatchArm {
	start := p.start()
	a := &syntax.MatchArm{Pattern: p.pattern()}
	if p.got(syntax.If) {
		a.Guard = p.expr()
	}
	if p.kind == syntax.Arrow || p.kind == syntax.Colon {
		p.fault(p.here(), syntax.CodeForeign, "expected `=>` after the pattern, found `"+p.text()+"`", "")
		p.next()
	} else if !p.expect(syntax.FatArrow, "after the pattern") {
		a.Body = &syntax.BadExpr{Span: p.bad()}
		p.skip(func() bool { return p.kind == syntax.Comma || p.kind == syntax.FatArrow })
		if !p.got(syntax.FatArrow) {
			a.Span = p.finish(start)
			return a
		}
	}
	a.Body = p.armBody()
	a.Span = p.finish(start)
	if blockLike(a.Body) || p.kind == syntax.Comma || p.atEnd() {
		p.got(syntax.Comma)
		return a
	}
	if p.kind == syntax.Semicolon {
		p.fault(p.here(), syntax.CodeUnexpected, "an arm ends with a comma",
			"write , instead of ;, or put statements into braces")
		p.next()
	} else if !p.onNewLine() {
		p.missing(syntax.Comma, "after the arm", "")
		p.skip(func() bool { return p.kind == syntax.Comma || p.onNewLine() })
		p.got(syntax.Comma)
	}
	return a
}

func (p *parser) armBody() syntax.Expr {
	start := p.start()
	var x syntax.Expr
	if p.kind == syntax.LBrace {
		x = p.braced(true)
		if _, ok := x.(*syntax.BlockExpr); ok {
			return x
		}
		x = p.exprFrom(x, start)
	} else {
		x = p.expr()
	}
	if p.kind >= syntax.Assign && p.kind <= syntax.ConcatAssign {
		p.fault(p.here(), syntax.CodeMisplaced, "an assignment is not a value", "put it into braces: => { x = v; }")
		p.next()
		p.expr()
		return &syntax.BadExpr{Span: p.finish(start)}
	}
	return x
}

// braced parses { }, which is a map if a colon follows its first expression. If it is empty, it is
// a block if block is set, else a map.
func (p *parser) braced(block bool) syntax.Expr {
	opening := p.at
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &syntax.BadExpr{Span: p.bad()}
	}
	p.next()
	b := &syntax.Block{}
	if p.kind == syntax.RBrace && !block {
		p.next()
		return &syntax.MapLit{Span: p.finish(start)}
	}
	if p.atExpr() && !p.atBlockStmt() {
		undo := p.inside()
		first := p.start()
		key := p.expr()
		if p.kind == syntax.Colon {
			m := &syntax.MapLit{Entries: []*syntax.MapEntry{p.entry(key, first)}}
			if p.kind != syntax.RBrace && !p.got(syntax.Comma) && !p.onNewLine() {
				p.unexpected("`,` or `}`", "")
			}
			p.list(syntax.RBrace, true, func() {
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
	return &syntax.BlockExpr{Block: p.blockRest(opening, b)}
}

// atBlockStmt reports whether the current token starts a statement that is not parsed as an
// expression.
func (p *parser) atBlockStmt() bool {
	switch p.kind {
	case syntax.If, syntax.Match:
		return true
	case syntax.LBrace:
		return false
	}
	return p.kind == syntax.Mock && p.atMock() || p.atDecl()
}

func (p *parser) entry(key syntax.Expr, start int32) *syntax.MapEntry {
	e := &syntax.MapEntry{Key: key}
	p.expect(syntax.Colon, "after the key")
	e.Value = p.expr()
	e.Span = p.finish(start)
	return e
}
