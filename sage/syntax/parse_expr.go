package syntax

import (
	"strconv"
)

// precedence is how tight a binary operator binds, 0 for what is none.
func precedence(k Kind) int {
	switch k {
	case OrOr:
		return 1
	case AndAnd:
		return 2
	case Equal, NotEqual:
		return 3
	case Less, Greater, LessEqual, GreaterEqual:
		return 4
	case Concat:
		return 5
	case Add, Sub:
		return 6
	case Mul, Div, Rem:
		return 7
	}
	return 0
}

// startsExpr reports whether an expression can begin with a token of this kind.
func startsExpr(k Kind) bool {
	switch k {
	case LBrace, LParen, LBracket, Pipe, OrOr, Sub, Not, Int, Float, String, TemplateHead, Invalid,
		Await, Break, Catch, Checkpoint, Continue, Divine, Fail, False, If, Match, Receive, Retry, Return, Self, Send,
		Summon,
		Trace, True, Try, Yield:
		return true
	}
	return k.IsName()
}

func (p *parser) atExpr() bool { return startsExpr(p.kind) }

// expr reads an expression.
func (p *parser) expr() Expr {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.bad()}
	}
	return p.caught(p.binary(p.unary(), 1), start)
}

// exprFrom reads the rest of an expression that begins with x.
func (p *parser) exprFrom(x Expr, start int32) Expr {
	return p.caught(p.binary(p.postfix(x, start), 1), start)
}

// caught reads the catch clauses behind x.
func (p *parser) caught(x Expr, start int32) Expr {
	for p.kind == Catch && p.atCatchClause() {
		p.next()
		c := &CatchExpr{X: x}
		switch {
		case p.got(LParen):
			c.Err = p.name("of the error")
			p.expect(RParen, "after the name of the error")
		case p.got(As):
			c.Err = p.name("of the error")
		}
		c.Body = p.block("after catch")
		c.Span = p.finish(start)
		x = c
	}
	return x
}

// atCatchClause reports whether the catch here belongs to what stands before
// it: one that begins an expression is followed by that.
func (p *parser) atCatchClause() bool {
	switch p.ahead(1) {
	case LBrace, As:
		return true
	case Colon: // a field of that name
		return false
	case LParen:
		return p.ahead(2).IsName() && p.ahead(3) == RParen
	}
	return !startsExpr(p.ahead(1))
}

// binary reads the operators behind x that bind at least as tight as least.
func (p *parser) binary(x Expr, least int) Expr {
	for {
		op := p.kind
		tight := precedence(op)
		if tight == 0 && (p.is("and") || p.is("or")) && startsExpr(p.ahead(1)) && !p.onNewLine() {
			op = AndAnd
			if p.is("or") {
				op = OrOr
			}
			p.fault(p.here(), CodeForeign, "`"+p.text()+"` is no operator", "write "+op.String())
			tight = precedence(op)
		}
		if tight == 0 || tight < least {
			return x
		}
		p.next()
		y := p.operand()
		for {
			next := precedence(p.kind)
			if next <= tight {
				break
			}
			y = p.binary(y, next)
		}
		x = &BinaryExpr{p.from(x), op, x, y}
	}
}

// operand reads what stands behind an operator.
func (p *parser) operand() Expr {
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.bad()}
	}
	return p.unary()
}

// unary reads prefix operators and what they stand before.
func (p *parser) unary() Expr {
	start := p.start()
	switch p.kind {
	case Sub:
		p.next()
		if (p.kind == Int || p.kind == Float) && !p.continued(p.ahead(1)) {
			return p.numberLit(true, start)
		}
		x := p.operand()
		return &UnaryExpr{p.finish(start), Sub, x}
	case Not:
		p.next()
		x := p.operand()
		return &UnaryExpr{p.finish(start), Not, x}
	case Try:
		p.next()
		x := p.operand()
		return &TryExpr{p.finish(start), x}
	case Await:
		p.next()
		a := &AwaitExpr{X: p.operand()}
		if p.kind == Timeout && p.ahead(1) == LParen {
			p.next()
			a.Timeout = p.parens("after timeout")
		}
		a.Span = p.finish(start)
		return a
	case Fail:
		p.next()
		x := p.binary(p.operand(), 1)
		return &FailExpr{p.finish(start), x}
	case Return:
		p.next()
		r := &ReturnExpr{}
		if p.atExpr() && !(p.head && p.kind == LBrace) && !p.atField() {
			r.Value = p.expr()
		}
		r.Span = p.finish(start)
		return r
	case Pipe, OrOr:
		return p.closure(start)
	case Catch:
		return p.prefixCatch(start)
	}
	if p.is("not") && p.negates(p.ahead(1)) && !p.onNewLineAhead() {
		p.fault(p.here(), CodeForeign, "`not` is no operator", "write !")
		p.next()
		x := p.operand()
		return &UnaryExpr{p.finish(start), Not, x}
	}
	return p.postfix(p.primary(), start)
}

// negates reports whether a token of this kind cannot stand behind a variable,
// not even one that is called `not`.
func (p *parser) negates(k Kind) bool {
	switch k {
	case Self, True, False, Name:
		return true
	case As, Timeout:
		return false
	}
	return k.IsName()
}

// continued reports whether a token goes on with the operand before it.
func (p *parser) continued(k Kind) bool { return k == Dot || k == LBracket || k == LParen }

// closure reads |x: T| body.
func (p *parser) closure(start int32) Expr {
	c := &ClosureExpr{}
	if !p.got(OrOr) {
		p.next()
		p.list(Pipe, false, func() { c.Params = append(c.Params, p.param(false)) })
	}
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.bad()}
	}
	if p.kind == LBrace {
		body := p.start()
		c.Body = p.braced(true)
		if _, ok := c.Body.(*BlockExpr); !ok {
			c.Body = p.exprFrom(c.Body, body)
		}
	} else {
		c.Body = p.expr()
	}
	c.Span = p.finish(start)
	return c
}

// postfix reads calls, fields and elements behind x.
func (p *parser) postfix(x Expr, start int32) Expr {
	for {
		switch p.kind {
		case Dot:
			p.next()
			switch {
			case p.kind == Int:
				index, err := strconv.Atoi(p.text())
				if err != nil {
					p.fault(p.here(), CodeNumber, "no tuple has that many elements", "")
				}
				p.next()
				x = &ElemExpr{p.finish(start), x, index}
			case p.kind.IsWord():
				name := p.word("")
				x = &FieldExpr{p.finish(start), x, name}
			default:
				p.unexpected("the name of a field or a method", "")
				missing := &Ident{Span: p.bad()}
				x = &FieldExpr{p.finish(start), x, missing}
			}
		case LParen:
			if p.onNewLine() && endsWithBlock(x) {
				return x
			}
			args := p.args()
			x = &CallExpr{p.finish(start), x, args}
		case LBracket:
			if p.onNewLine() {
				// A list at the beginning of a line: the semicolon before it is missing.
				return x
			}
			undo := p.inside()
			p.next()
			index := p.expr()
			p.expect(RBracket, "after the index")
			undo()
			x = &IndexExpr{p.finish(start), x, index}
		default:
			return x
		}
	}
}

// args reads (a, b).
func (p *parser) args() []Expr {
	defer p.inside()()
	p.next()
	var args []Expr
	p.list(RParen, false, func() { args = append(args, p.expr()) })
	return args
}

// parens reads (x).
func (p *parser) parens(where string) Expr {
	defer p.inside()()
	if !p.expect(LParen, where) {
		return &BadExpr{p.bad()}
	}
	x := p.expr()
	if !p.got(RParen) {
		p.missing(RParen, "here", "")
		p.skipTo(RParen)
	}
	return x
}

// primary reads what has no operators.
func (p *parser) primary() Expr {
	start := p.start()
	switch p.kind {
	case Int, Float:
		return p.numberLit(false, start)
	case String:
		return p.stringLit()
	case TemplateHead:
		return p.template()
	case True, False:
		value := p.kind == True
		p.next()
		return &BoolLit{p.finish(start), value}
	case Self:
		p.next()
		return &SelfExpr{p.finish(start)}
	case LParen:
		return p.paren(start)
	case LBracket:
		defer p.inside()()
		p.next()
		l := &ListLit{}
		p.list(RBracket, false, func() { l.Elems = append(l.Elems, p.expr()) })
		l.Span = p.finish(start)
		return l
	case LBrace:
		return p.braced(false)
	case If:
		return p.ifExpr()
	case Match:
		return p.matchExpr()
	case Break:
		p.next()
		return &BreakExpr{p.finish(start)}
	case Continue:
		p.next()
		return &ContinueExpr{p.finish(start)}
	case Retry:
		return p.retry(start)
	case Summon:
		p.next()
		return p.summon(start)
	case Send, Receive, Yield, Trace, Checkpoint, Divine:
		return p.wordCall(start)
	case Invalid:
		p.next()
		return &BadExpr{p.finish(start)}
	case Reply, Infer:
		if p.ahead(1) == LParen {
			return p.wordCall(start)
		}
	}
	if p.kind.IsName() {
		return p.nameExpr(start)
	}
	p.unexpected("an expression", "")
	return &BadExpr{p.bad()}
}

// nameExpr reads what begins with a name.
func (p *parser) nameExpr(start int32) Expr {
	if p.is("spawn") && p.ahead(1).IsName() && !p.onNewLineAhead() {
		p.fault(p.here(), CodeForeign, "`spawn` is a word of an earlier Sage", "here it is `summon`")
		p.next()
		return p.summon(start)
	}
	name := p.name("here")
	if p.kind != ColonColon {
		if !p.atRecord(name.Name) {
			return name
		}
		path := &Path{name.Span, []Segment{{Name: name}}}
		r := &RecordLit{Name: path, Inits: p.inits()}
		r.Span = p.finish(start)
		return r
	}
	path := &Path{Segments: []Segment{{Name: name}}}
	p.segments(path, false)
	path.Span = p.finish(start)
	if p.atRecord(path.Last().Name) {
		r := &RecordLit{Name: path, Inits: p.inits()}
		r.Span = p.finish(start)
		return r
	}
	return path
}

// atRecord reports whether the brace behind a name is that of a record: no
// block begins with name and colon. An empty one, and one that is wrong, is a
// record only where no block can follow.
func (p *parser) atRecord(name string) bool {
	if p.kind != LBrace {
		return false
	}
	if p.ahead(1).IsWord() && p.ahead(2) == Colon {
		return true
	}
	return !p.head && upper(name) && !p.onNewLine()
}

func (p *parser) paren(start int32) Expr {
	defer p.inside()()
	p.next()
	if p.got(RParen) {
		return &TupleLit{Span: p.finish(start)}
	}
	x := p.expr()
	if p.got(RParen) {
		return &ParenExpr{p.finish(start), x}
	}
	t := &TupleLit{Elems: []Expr{x}}
	if !p.got(Comma) {
		p.missing(RParen, "here", "")
		p.skipTo(RParen)
		return &ParenExpr{p.finish(start), x}
	}
	if p.kind == RParen {
		p.unexpected("the second element of the tuple", "a tuple has at least two elements")
	}
	p.list(RParen, false, func() { t.Elems = append(t.Elems, p.expr()) })
	t.Span = p.finish(start)
	return t
}
