package syntax

import "strconv"

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

// summon reads what follows the word.
func (p *parser) summon(start int32) Expr {
	s := &SummonExpr{Agent: p.path("of the agent to summon", false)}
	if p.kind == LBrace {
		s.Inits = p.inits()
	} else {
		p.missing(LBrace, "after the agent", "write the braces also if it is given nothing: summon "+
			brief(s.Agent.String())+" {}")
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
					p.fault(x.Extent(), CodeUnexpected, "retry has only one number of tries",
						"the others are written delay: ms and on: [kinds]")
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
				p.fault(f.Name.Span, CodeUnexpected, "retry has no `"+brief(f.Name.Name)+"`",
					"it has delay: ms and on: [kinds]")
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
