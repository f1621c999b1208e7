package parser

import (
	"strconv"

	"github.com/coppice-dev/coppice/sage/syntax"
)

// prefixCatch parses catch x as e { }.
func (p *parser) prefixCatch(start int32) syntax.Expr {
	defer p.leave()
	if !p.enter() {
		return &syntax.BadExpr{Span: p.bad()}
	}
	p.next()
	c := &syntax.CatchExpr{Prefix: true}
	undo := p.setHead(true)
	c.X = p.binary(p.operand(), 1)
	undo()
	if p.kind == syntax.As && p.ahead(1) != syntax.Colon {
		p.next()
		c.Err = p.name("of the error")
		c.Body = p.block("after the name of the error")
	} else if p.kind == syntax.LBrace {
		c.Body = p.block("after catch")
	}
	c.Span = p.finish(start)
	return c
}

// summon parses the rest of a summon after its keyword.
func (p *parser) summon(start int32) syntax.Expr {
	s := &syntax.SummonExpr{Agent: p.path("of the agent to summon", false)}
	if p.kind == syntax.LBrace {
		s.Inits = p.inits()
	} else {
		p.missing(syntax.LBrace, "after the agent", "write the braces even without beliefs: summon "+
			truncate(s.Agent.String())+" {}")
	}
	s.Span = p.finish(start)
	return s
}

// retry parses retry(n, delay: ms, on: kinds) { }.
func (p *parser) retry(start int32) syntax.Expr {
	defer p.leave()
	if !p.enter() {
		return &syntax.BadExpr{Span: p.bad()}
	}
	p.next()
	r := &syntax.RetryExpr{}
	undo := p.inside()
	if p.expect(syntax.LParen, "and the number of tries") {
		p.list(syntax.RParen, false, func() {
			if !p.atField() {
				if x := p.expr(); r.Count == nil {
					r.Count = x
				} else {
					p.fault(x.Extent(), syntax.CodeUnexpected, "retry has only one number of tries",
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
				p.fault(f.Name.Span, syntax.CodeUnexpected, "retry has no `"+truncate(f.Name.Name)+"`",
					"it has delay: ms and on: [kinds]")
			}
		})
	}
	undo()
	if r.Count == nil {
		r.Count = &syntax.BadExpr{Span: p.bad()}
		p.fault(r.Count.Extent(), syntax.CodeUnexpected, "the number of tries is missing",
			"write it first: retry(3) { … }")
	}
	r.Body = p.block("before what is tried")
	r.Span = p.finish(start)
	return r
}

// wordCall parses a call whose name is a keyword.
func (p *parser) wordCall(start int32) syntax.Expr {
	word, kind := p.text(), p.kind
	p.next()
	if kind == syntax.Trace && p.kind != syntax.LParen && p.atExpr() {
		x := p.binary(p.operand(), 1)
		return &syntax.TraceExpr{Span: p.finish(start), Value: x}
	}
	if p.kind != syntax.LParen {
		help := "write " + word + "(…)"
		if kind == syntax.Receive || kind == syntax.Checkpoint {
			help = "write " + word + "()"
		}
		p.missing(syntax.LParen, "after `"+word+"`", help)
		if p.atExpr() && !p.onNewLine() {
			p.expr()
		}
		return &syntax.BadExpr{Span: p.finish(start)}
	}
	opening := p.here()
	if kind == syntax.Divine || kind == syntax.Infer {
		return p.divine(start, kind)
	}
	args := p.args()
	span := p.finish(start)
	most := 1
	switch kind {
	case syntax.Send:
		most = 2
	case syntax.Receive, syntax.Checkpoint:
		most = 0
	}
	least, takes := most, count(most)
	if kind == syntax.Yield {
		least, takes = 0, "at most "+takes
	}
	if len(args) < least || len(args) > most {
		p.report(opening, syntax.CodeUnexpected,
			"`"+word+"` is given "+count(len(args))+", and takes "+takes, "")
		return &syntax.BadExpr{Span: span}
	}
	switch kind {
	case syntax.Send:
		return &syntax.SendExpr{Span: span, To: args[0], Message: args[1]}
	case syntax.Receive:
		return &syntax.ReceiveExpr{Span: span}
	case syntax.Checkpoint:
		return &syntax.CheckpointExpr{Span: span}
	case syntax.Reply:
		return &syntax.ReplyExpr{Span: span, Value: args[0]}
	case syntax.Trace:
		return &syntax.TraceExpr{Span: span, Value: args[0]}
	}
	y := &syntax.YieldExpr{Span: span}
	if len(args) > 0 {
		y.Value = args[0]
	}
	return y
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

// divine parses (prompt -> T).
func (p *parser) divine(start int32, kind syntax.Kind) syntax.Expr {
	defer p.inside()()
	p.next()
	d := &syntax.DivineExpr{Infer: kind == syntax.Infer, Prompt: p.expr()}
	if p.got(syntax.Arrow) {
		d.Type = p.typ()
	}
	p.got(syntax.Comma)
	p.closeParen("after the prompt")
	d.Span = p.finish(start)
	return d
}
