package syntax

import (
	"strconv"
	"strings"
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
		Await, Break, Catch, Checkpoint, Continue, Divine, Fail, False, If, Match, Receive, Retry, Return, Self, Send, Summon,
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

// prefixCatch reads catch x as e { }.
func (p *parser) prefixCatch(start int32) Expr {
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.bad()}
	}
	p.next()
	c := &CatchExpr{Prefix: true}
	head := p.head
	p.head = true
	c.X = p.binary(p.operand(), 1)
	p.head = head
	if p.kind == As && p.ahead(1) != Colon {
		p.next()
		c.Err = p.name("of the error")
		c.Body = p.block("after the name of the error")
	} else if p.kind == LBrace {
		c.Body = p.block("after catch")
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
				x = &FieldExpr{p.finish(start), x, &Ident{Span: p.bad()}}
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

// summon reads what follows the word.
func (p *parser) summon(start int32) Expr {
	s := &SummonExpr{Agent: p.path("of the agent to summon", false)}
	if p.kind == LBrace {
		s.Inits = p.inits()
	} else {
		p.missing(LBrace, "after the agent", "write the braces also if it is given nothing: summon "+brief(s.Agent.String())+" {}")
	}
	s.Span = p.finish(start)
	return s
}

// retry reads retry(n, delay: ms, on: kinds) { }.
func (p *parser) retry(start int32) Expr {
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.bad()}
	}
	p.next()
	r := &RetryExpr{}
	undo := p.inside()
	if p.expect(LParen, "and the number of tries") {
		p.list(RParen, false, func() {
			if !p.atField() {
				if x := p.expr(); r.Count == nil {
					r.Count = x
				} else {
					p.fault(x.Extent(), CodeUnexpected, "retry has only one number of tries", "the others are written delay: ms and on: [kinds]")
				}
				return
			}
			f := p.fieldInit()
			switch f.Name.Name {
			case "delay":
				r.Delay = f.Value
			case "on":
				r.On = f.Value
			default:
				p.fault(f.Name.Span, CodeUnexpected, "retry has no `"+brief(f.Name.Name)+"`", "it has delay: ms and on: [kinds]")
			}
		})
	}
	undo()
	if r.Count == nil {
		r.Count = &BadExpr{p.bad()}
		p.fault(r.Count.Extent(), CodeUnexpected, "the number of tries is missing", "write it first: retry(3) { … }")
	}
	r.Body = p.block("before what is tried")
	r.Span = p.finish(start)
	return r
}

// wordCall reads the calls of what are words of the language.
func (p *parser) wordCall(start int32) Expr {
	word, kind := p.text(), p.kind
	p.next()
	if kind == Trace && p.kind != LParen && p.atExpr() {
		x := p.binary(p.operand(), 1)
		return &TraceExpr{p.finish(start), x}
	}
	if p.kind != LParen {
		help := "write " + word + "(…)"
		if kind == Receive || kind == Checkpoint {
			help = "write " + word + "()"
		}
		p.missing(LParen, "after `"+word+"`", help)
		if p.atExpr() && !p.onNewLine() {
			p.expr()
		}
		return &BadExpr{p.finish(start)}
	}
	opening := p.here()
	if kind == Divine || kind == Infer {
		return p.divine(start, kind)
	}
	args := p.args()
	span := p.finish(start)
	least, most := 1, 1
	switch kind {
	case Send:
		least, most = 2, 2
	case Receive, Checkpoint:
		least, most = 0, 0
	case Yield:
		least = 0
	}
	if len(args) < least || len(args) > most {
		p.report(opening, CodeUnexpected, "`"+word+"` is given "+count(len(args))+", and takes "+takes(least, most), "")
		return &BadExpr{span}
	}
	switch kind {
	case Send:
		return &SendExpr{span, args[0], args[1]}
	case Receive:
		return &ReceiveExpr{span}
	case Checkpoint:
		return &CheckpointExpr{span}
	case Reply:
		return &ReplyExpr{span, args[0]}
	case Trace:
		return &TraceExpr{span, args[0]}
	}
	if len(args) == 0 {
		return &YieldExpr{Span: span}
	}
	return &YieldExpr{span, args[0]}
}

func count(n int) string {
	switch n {
	case 0:
		return "no value"
	case 1:
		return "one value"
	}
	return strconv.Itoa(n) + " values"
}

func takes(least, most int) string {
	if least < most {
		return "at most " + count(most)
	}
	return count(most)
}

// divine reads (prompt -> T).
func (p *parser) divine(start int32, kind Kind) Expr {
	defer p.inside()()
	p.next()
	d := &DivineExpr{Infer: kind == Infer, Prompt: p.expr()}
	if p.got(Arrow) {
		d.Type = p.typ()
	}
	p.got(Comma)
	if !p.got(RParen) {
		p.missing(RParen, "after the prompt", "")
		p.skipTo(RParen)
	}
	d.Span = p.finish(start)
	return d
}

// numberLit reads a number, of which start is the beginning with its minus.
func (p *parser) numberLit(negative bool, start int32) Expr {
	kind, here, text := p.kind, p.here(), p.text()
	p.next()
	span := p.finish(start)
	if negative {
		text = "-" + text
	}
	if kind == Float {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			p.report(here, CodeNumber, "this number is too large for a Float", "")
		}
		return &FloatLit{span, value, text}
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.report(here, CodeNumber, "this number is too large for an Int", "the largest is 9223372036854775807, the smallest -9223372036854775808")
	}
	return &IntLit{span, value}
}

func (p *parser) stringLit() *StringLit {
	start, text := p.start(), unixLines(p.text())
	p.next()
	return &StringLit{p.finish(start), textValue(text[1 : len(text)-1]), text}
}

// unixLines is a text in which lines end with a line feed only.
func unixLines(text string) string {
	if strings.IndexByte(text, '\r') < 0 {
		return text
	}
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// template reads a string with interpolations.
func (p *parser) template() Expr {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.bad()}
	}
	defer p.inside()()
	t := &TemplateLit{}
	for {
		text, last := p.text(), p.kind == TemplateTail
		text = unixLines(text[1 : len(text)-1])
		part := TemplatePart{p.here(), textValue(text), text}
		t.Parts = append(t.Parts, part)
		p.next()
		if last {
			break
		}
		if p.kind == TemplateMiddle || p.kind == TemplateTail {
			p.unexpected("an expression", "write \\{ for a brace that is text")
			t.Exprs = append(t.Exprs, &BadExpr{p.bad()})
			continue
		}
		t.Exprs = append(t.Exprs, p.expr())
		if p.kind != TemplateMiddle && p.kind != TemplateTail {
			p.unexpected("`}` after the expression in the string", "write \\{ for a brace that is text")
			p.skipTemplate()
		}
		if p.kind == EOF {
			t.Parts = append(t.Parts, TemplatePart{})
			break
		}
	}
	t.Span = p.finish(start)
	return t
}

// skipTemplate goes to the next part of the string that is being read.
func (p *parser) skipTemplate() {
	for depth := 0; p.kind != EOF; p.next() {
		switch p.kind {
		case TemplateHead:
			depth++
		case TemplateMiddle:
			if depth == 0 {
				return
			}
		case TemplateTail:
			if depth == 0 {
				return
			}
			depth--
		}
	}
}
