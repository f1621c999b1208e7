package parser

import (
	"strconv"

	"github.com/coppice-dev/coppice/sage/syntax"
)

// startsExpr reports whether an expression can start with a token of this kind.
func startsExpr(k syntax.Kind) bool {
	switch k {
	case syntax.LBrace, syntax.LParen, syntax.LBracket, syntax.Pipe, syntax.OrOr, syntax.Sub, syntax.Not,
		syntax.Int, syntax.Float, syntax.String, syntax.TemplateHead, syntax.Invalid,
		syntax.Await, syntax.Break, syntax.Catch, syntax.Checkpoint, syntax.Continue, syntax.Divine,
		syntax.Fail, syntax.False, syntax.If, syntax.Match, syntax.Receive, syntax.Retry, syntax.Return,
		syntax.Self, syntax.Send, syntax.Summon, syntax.Trace, syntax.True, syntax.Try, syntax.Yield:
		return true
	}
	return k.IsName()
}

func (p *parser) atExpr() bool { return startsExpr(p.kind) }

// expr parses an expression.
func (p *parser) expr() syntax.Expr {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &syntax.BadExpr{Span: p.bad()}
	}
	return p.catchClauses(p.binary(p.unary(), 1), start)
}

// exprFrom parses the rest of an expression that starts with x.
func (p *parser) exprFrom(x syntax.Expr, start int32) syntax.Expr {
	return p.catchClauses(p.binary(p.postfix(x, start), 1), start)
}

// catchClauses parses the catch clauses after x.
func (p *parser) catchClauses(x syntax.Expr, start int32) syntax.Expr {
	for p.kind == syntax.Catch && p.atCatchClause() {
		p.next()
		c := &syntax.CatchExpr{X: x}
		switch {
		case p.got(syntax.LParen):
			c.Err = p.name("of the error")
			p.expect(syntax.RParen, "after the name of the error")
		case p.got(syntax.As):
			c.Err = p.name("of the error")
		}
		c.Body = p.block("after catch")
		c.Span = p.finish(start)
		x = c
	}
	return x
}

// atCatchClause reports whether the catch here belongs to the preceding expression. A catch that
// starts an expression is followed by its operand.
func (p *parser) atCatchClause() bool {
	switch p.ahead(1) {
	case syntax.LBrace, syntax.As:
		return true
	case syntax.Colon: // a field of that name
		return false
	case syntax.LParen:
		return p.ahead(2).IsName() && p.ahead(3) == syntax.RParen
	}
	return !startsExpr(p.ahead(1))
}

// binary parses the operators after x whose precedence is at least lowest.
func (p *parser) binary(x syntax.Expr, lowest int) syntax.Expr {
	for {
		op := p.kind
		precedence := syntax.Precedence(op)
		if precedence == 0 && (p.is("and") || p.is("or")) && startsExpr(p.ahead(1)) && !p.onNewLine() {
			op = syntax.AndAnd
			if p.is("or") {
				op = syntax.OrOr
			}
			p.fault(p.here(), syntax.CodeForeign, "`"+p.text()+"` is not an operator", "write "+op.String())
			precedence = syntax.Precedence(op)
		}
		if precedence == 0 || precedence < lowest {
			return x
		}
		p.next()
		y := p.operand()
		for next := syntax.Precedence(p.kind); next > precedence; next = syntax.Precedence(p.kind) {
			y = p.binary(y, next)
		}
		x = &syntax.BinaryExpr{Span: p.from(x), Op: op, X: x, Y: y}
	}
}

// operand parses the right operand of an operator.
func (p *parser) operand() syntax.Expr {
	defer p.leave()
	if !p.enter() {
		return &syntax.BadExpr{Span: p.bad()}
	}
	return p.unary()
}

// unary parses prefix operators and their operand.
func (p *parser) unary() syntax.Expr {
	start := p.start()
	switch p.kind {
	case syntax.Sub, syntax.Not:
		op := p.kind
		p.next()
		if op == syntax.Sub && (p.kind == syntax.Int || p.kind == syntax.Float) && !continues(p.ahead(1)) {
			return p.numberLit(true, start)
		}
		x := p.operand()
		return &syntax.UnaryExpr{Span: p.finish(start), Op: op, X: x}
	case syntax.Try:
		p.next()
		x := p.operand()
		return &syntax.TryExpr{Span: p.finish(start), X: x}
	case syntax.Await:
		p.next()
		a := &syntax.AwaitExpr{X: p.operand()}
		if p.kind == syntax.Timeout && p.ahead(1) == syntax.LParen {
			p.next()
			a.Timeout = p.parens("after timeout")
		}
		a.Span = p.finish(start)
		return a
	case syntax.Fail:
		p.next()
		x := p.binary(p.operand(), 1)
		return &syntax.FailExpr{Span: p.finish(start), X: x}
	case syntax.Return:
		p.next()
		r := &syntax.ReturnExpr{}
		if p.atExpr() && !(p.head && p.kind == syntax.LBrace) && !p.atField() {
			r.Value = p.expr()
		}
		r.Span = p.finish(start)
		return r
	case syntax.Pipe, syntax.OrOr:
		return p.closure(start)
	case syntax.Catch:
		return p.prefixCatch(start)
	}
	if p.is("not") && negatable(p.ahead(1)) && !p.onNewLineAhead() {
		p.fault(p.here(), syntax.CodeForeign, "`not` is not an operator", "write !")
		p.next()
		x := p.operand()
		return &syntax.UnaryExpr{Span: p.finish(start), Op: syntax.Not, X: x}
	}
	return p.postfix(p.primary(), start)
}

// negatable reports whether a token of this kind cannot follow a variable, not even one named
// `not`.
func negatable(k syntax.Kind) bool {
	switch k {
	case syntax.Self, syntax.True, syntax.False:
		return true
	case syntax.As, syntax.Timeout:
		return false
	}
	return k.IsName()
}

// continues reports whether a token continues the preceding operand.
func continues(k syntax.Kind) bool {
	return k == syntax.Dot || k == syntax.LBracket || k == syntax.LParen
}

// closure parses |x: T| body.
func (p *parser) closure(start int32) syntax.Expr {
	c := &syntax.ClosureExpr{}
	if !p.got(syntax.OrOr) {
		p.next()
		p.list(syntax.Pipe, false, func() { c.Params = append(c.Params, p.param(false)) })
	}
	defer p.leave()
	if !p.enter() {
		return &syntax.BadExpr{Span: p.bad()}
	}
	if p.kind == syntax.LBrace {
		body := p.start()
		c.Body = p.braced(true)
		if _, ok := c.Body.(*syntax.BlockExpr); !ok {
			c.Body = p.exprFrom(c.Body, body)
		}
	} else {
		c.Body = p.expr()
	}
	c.Span = p.finish(start)
	return c
}

// postfix parses calls, fields and elements after x.
func (p *parser) postfix(x syntax.Expr, start int32) syntax.Expr {
	for {
		switch p.kind {
		case syntax.Dot:
			p.next()
			switch {
			case p.kind == syntax.Int:
				index, err := strconv.Atoi(p.text())
				if err != nil {
					p.fault(p.here(), syntax.CodeNumber, "no tuple has that many elements", "")
				}
				p.next()
				x = &syntax.ElemExpr{Span: p.finish(start), X: x, Index: index}
			case p.kind.IsWord():
				name := p.word("")
				x = &syntax.FieldExpr{Span: p.finish(start), X: x, Name: name}
			default:
				p.unexpected("the name of a field or a method", "")
				missing := &syntax.Ident{Span: p.bad()}
				x = &syntax.FieldExpr{Span: p.finish(start), X: x, Name: missing}
			}
		case syntax.LParen:
			if p.onNewLine() && endsWithBlock(x) {
				return x
			}
			args := p.args()
			x = &syntax.CallExpr{Span: p.finish(start), Fun: x, Args: args}
		case syntax.LBracket:
			if p.onNewLine() {
				// A list at the start of a line: the semicolon before it is missing.
				return x
			}
			undo := p.inside()
			p.next()
			index := p.expr()
			p.expect(syntax.RBracket, "after the index")
			undo()
			x = &syntax.IndexExpr{Span: p.finish(start), X: x, Index: index}
		default:
			return x
		}
	}
}

// args parses (a, b).
func (p *parser) args() []syntax.Expr {
	defer p.inside()()
	p.next()
	var args []syntax.Expr
	p.list(syntax.RParen, false, func() { args = append(args, p.expr()) })
	return args
}

// parens parses (x).
func (p *parser) parens(where string) syntax.Expr {
	defer p.inside()()
	if !p.expect(syntax.LParen, where) {
		return &syntax.BadExpr{Span: p.bad()}
	}
	x := p.expr()
	p.closeParen("here")
	return x
}

// closeParen consumes the closing parenthesis, or reports that it is missing.
func (p *parser) closeParen(where string) {
	if !p.got(syntax.RParen) {
		p.missing(syntax.RParen, where, "")
		p.skipTo(syntax.RParen)
	}
}

// primary parses an operand without operators.
func (p *parser) primary() syntax.Expr {
	start := p.start()
	switch p.kind {
	case syntax.Int, syntax.Float:
		return p.numberLit(false, start)
	case syntax.String:
		return p.stringLit()
	case syntax.TemplateHead:
		return p.template()
	case syntax.True, syntax.False:
		value := p.kind == syntax.True
		p.next()
		return &syntax.BoolLit{Span: p.finish(start), Value: value}
	case syntax.Self:
		p.next()
		return &syntax.SelfExpr{Span: p.finish(start)}
	case syntax.LParen:
		return p.paren(start)
	case syntax.LBracket:
		defer p.inside()()
		p.next()
		l := &syntax.ListLit{}
		p.list(syntax.RBracket, false, func() { l.Elems = append(l.Elems, p.expr()) })
		l.Span = p.finish(start)
		return l
	case syntax.LBrace:
		return p.braced(false)
	case syntax.If:
		return p.ifExpr()
	case syntax.Match:
		return p.matchExpr()
	case syntax.Break:
		p.next()
		return &syntax.BreakExpr{Span: p.finish(start)}
	case syntax.Continue:
		p.next()
		return &syntax.ContinueExpr{Span: p.finish(start)}
	case syntax.Retry:
		return p.retry(start)
	case syntax.Summon:
		p.next()
		return p.summon(start)
	case syntax.Send, syntax.Receive, syntax.Yield, syntax.Trace, syntax.Checkpoint, syntax.Divine:
		return p.wordCall(start)
	case syntax.Invalid:
		p.next()
		return &syntax.BadExpr{Span: p.finish(start)}
	case syntax.Reply, syntax.Infer:
		if p.ahead(1) == syntax.LParen {
			return p.wordCall(start)
		}
	}
	if p.kind.IsName() {
		return p.nameExpr(start)
	}
	p.unexpected("an expression", "")
	return &syntax.BadExpr{Span: p.bad()}
}

// nameExpr parses an expression that starts with a name.
func (p *parser) nameExpr(start int32) syntax.Expr {
	if p.is("spawn") && p.ahead(1).IsName() && !p.onNewLineAhead() {
		p.fault(p.here(), syntax.CodeForeign, "`spawn` is a word of an earlier Sage", "here it is `summon`")
		p.next()
		return p.summon(start)
	}
	name := p.name("here")
	if p.kind != syntax.ColonColon && !p.atRecord(name.Name) {
		return name
	}
	path := &syntax.Path{Span: name.Span, Segments: []syntax.Segment{{Name: name}}}
	if p.kind == syntax.ColonColon {
		p.segments(path, false)
		path.Span = p.finish(start)
	}
	if !p.atRecord(path.Last().Name) {
		return path
	}
	r := &syntax.RecordLit{Name: path, Inits: p.inits()}
	r.Span = p.finish(start)
	return r
}

// atRecord reports whether the brace after a name starts a record. No block starts with a name and
// a colon. An empty or malformed record is only recognised where no block can follow.
func (p *parser) atRecord(name string) bool {
	if p.kind != syntax.LBrace {
		return false
	}
	if p.ahead(1).IsWord() && p.ahead(2) == syntax.Colon {
		return true
	}
	return !p.head && upper(name) && !p.onNewLine()
}

func (p *parser) paren(start int32) syntax.Expr {
	defer p.inside()()
	p.next()
	if p.got(syntax.RParen) {
		return &syntax.TupleLit{Span: p.finish(start)}
	}
	x := p.expr()
	if !p.got(syntax.Comma) {
		p.closeParen("here")
		return &syntax.ParenExpr{Span: p.finish(start), X: x}
	}
	t := &syntax.TupleLit{Elems: []syntax.Expr{x}}
	if p.kind == syntax.RParen {
		p.unexpected("the second element of the tuple", "a tuple has at least two elements")
	}
	p.list(syntax.RParen, false, func() { t.Elems = append(t.Elems, p.expr()) })
	t.Span = p.finish(start)
	return t
}
