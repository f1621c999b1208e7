package printer

import (
	"slices"
	"strconv"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
)

func (p *printer) expr(x syntax.Expr) *doc {
	switch x := x.(type) {
	case *syntax.BlockExpr:
		return p.inlineBlock(x.Block)
	case *syntax.Ident:
		return p.name(x)
	case *syntax.Path:
		return p.path(x)
	}
	return p.with(x, p.bareExpr(x))
}

func (p *printer) bareExpr(x syntax.Expr) *doc {
	switch x := x.(type) {
	case *syntax.IntLit:
		return text(strconv.FormatInt(x.Value, 10))
	case *syntax.FloatLit:
		return text(x.Text)
	case *syntax.BoolLit:
		return text(strconv.FormatBool(x.Value))
	case *syntax.StringLit:
		if x.Text == "" {
			return text(`"` + parser.Quote(x.Value) + `"`)
		}
		return text(x.Text)
	case *syntax.TemplateLit:
		return p.template(x)
	case *syntax.ListLit:
		return p.listLit(x)
	case *syntax.MapLit:
		return p.mapLit(x)
	case *syntax.TupleLit:
		return p.list(x, "(", docsOf(x.Elems, p.expr), ")")
	case *syntax.RecordLit:
		return concat(p.path(x.Name), text(" "), p.inits(x, x.Inits))
	case *syntax.ClosureExpr:
		return p.closure(x)
	case *syntax.SelfExpr:
		return text("self")
	case *syntax.ParenExpr:
		return group(text("("), indent(soft, p.expr(x.X)), soft, text(")"))
	case *syntax.UnaryExpr:
		return concat(text(x.Op.String()), p.expr(x.X))
	case *syntax.BinaryExpr:
		return p.binary(x)
	case *syntax.CallExpr, *syntax.FieldExpr, *syntax.ElemExpr, *syntax.IndexExpr:
		return p.chain(x)
	case *syntax.IfExpr:
		return p.ifExpr(x)
	case *syntax.MatchExpr:
		return p.match(x)
	case *syntax.BreakExpr:
		return text("break")
	case *syntax.ContinueExpr:
		return text("continue")
	case *syntax.ReturnExpr:
		if x.Value == nil {
			return text("return")
		}
		return concat(text("return"), p.value(x.Value))
	}
	return p.agentExpr(x)
}

// agentExpr prints the expressions of errors and agents.
func (p *printer) agentExpr(x syntax.Expr) *doc {
	switch x := x.(type) {
	case *syntax.TryExpr:
		return concat(text("try"), p.value(x.X))
	case *syntax.CatchExpr:
		return p.catch(x)
	case *syntax.FailExpr:
		if paren, ok := x.X.(*syntax.ParenExpr); ok && !p.hasLeading(paren) {
			return concat(text("fail"), p.expr(paren))
		}
		return concat(text("fail"), p.value(x.X))
	case *syntax.RetryExpr:
		docs := []*doc{p.expr(x.Count)}
		if x.Delay != nil {
			docs = append(docs, concat(text("delay:"), p.value(x.Delay)))
		}
		if x.On != nil {
			docs = append(docs, concat(text("on:"), p.value(x.On)))
		}
		return concat(p.list(x, "retry(", docs, ")"), text(" "), p.inlineBlock(x.Body))
	case *syntax.SummonExpr:
		return concat(text("summon "), p.path(x.Agent), text(" "), p.inits(x, x.Inits))
	case *syntax.AwaitExpr:
		d := concat(text("await"), p.value(x.X))
		if x.Timeout != nil {
			d = concat(d, text(" timeout("), p.expr(x.Timeout), text(")"))
		}
		return d
	case *syntax.SendExpr:
		return p.args(x, "send(", []syntax.Expr{x.To, x.Message})
	case *syntax.ReceiveExpr:
		return text("receive()")
	case *syntax.YieldExpr:
		if x.Value == nil {
			return text("yield()")
		}
		return p.args(x, "yield(", []syntax.Expr{x.Value})
	case *syntax.ReplyExpr:
		return p.args(x, "reply(", []syntax.Expr{x.Value})
	case *syntax.TraceExpr:
		return p.args(x, "trace(", []syntax.Expr{x.Value})
	case *syntax.CheckpointExpr:
		return text("checkpoint()")
	case *syntax.DivineExpr:
		word := "divine("
		if x.Infer {
			word = "infer("
		}
		if x.Type == nil {
			return p.args(x, word, []syntax.Expr{x.Prompt})
		}
		return p.list(x, word, []*doc{concat(p.expr(x.Prompt), text(" -> "), p.typ(x.Type))}, ")")
	}
	return text(x.Extent().Source())
}

func (p *printer) template(x *syntax.TemplateLit) *doc {
	var parts []*doc
	for i, part := range x.Parts {
		s := part.Text
		if s == "" {
			s = parser.Quote(part.Value)
		}
		before, after := "}", "{"
		if i == 0 {
			before = `"`
		}
		if i == len(x.Parts)-1 {
			after = `"`
		}
		parts = append(parts, text(before+s+after))
		if i < len(x.Exprs) {
			parts = append(parts, flat(p.expr(x.Exprs[i])))
		}
	}
	return concat(parts...)
}

// listLit prints a list. Numbers fill as few lines as possible.
func (p *printer) listLit(x *syntax.ListLit) *doc {
	docs := docsOf(x.Elems, p.expr)
	numbers := len(docs) > 8 && !slices.ContainsFunc(x.Elems, func(e syntax.Expr) bool { return !isNumber(e) })
	if !numbers || slices.ContainsFunc(docs, isForced) || p.notes[x] != nil {
		return p.list(x, "[", docs, "]")
	}
	var parts []*doc
	for i, d := range docs {
		if i > 0 {
			parts = append(parts, line)
		}
		if i < len(docs)-1 {
			d = concat(d, text(","))
		}
		parts = append(parts, d)
	}
	return group(text("["), indent(soft, fill(parts)), ifBroken(","), soft, text("]"))
}

func isNumber(x syntax.Expr) bool {
	switch x.(type) {
	case *syntax.IntLit, *syntax.FloatLit:
		return true
	}
	return false
}

// mapLit prints a map like a record, without spaces inside its braces.
func (p *printer) mapLit(x *syntax.MapLit) *doc {
	d := p.list(x, "{", docsOf(x.Entries, func(e *syntax.MapEntry) *doc {
		return p.with(e, concat(p.expr(e.Key), text(":"), p.value(e.Value)))
	}), "}")
	if len(x.Entries) > 0 && p.startsLine(x.Entries[0]) {
		d.forced = true
	}
	return d
}

func (p *printer) closure(x *syntax.ClosureExpr) *doc {
	return concat(text("|"), join(docsOf(x.Params, p.param), text(", ")), text("|"), p.value(x.Body))
}

// binary prints a chain of operators of equal precedence. A chain of && or || breaks at all of
// them, others only where a line is too long.
func (p *printer) binary(x *syntax.BinaryExpr) *doc {
	precedence := syntax.Precedence(x.Op)
	var rest []*doc // in reverse: operands with the operator after them, and the lines between
	behind := none
	first := syntax.Expr(x)
	for {
		b, ok := first.(*syntax.BinaryExpr)
		if !ok || syntax.Precedence(b.Op) != precedence || b != x && p.hasLeading(b) {
			break
		}
		if b != x {
			behind = concat(concat(p.after(b)...), behind)
		}
		rest = append(rest, concat(p.expr(b.Y), behind), line)
		behind = text(" " + b.Op.String())
		first = b.X
	}
	rest = append(rest, concat(p.expr(first), behind))
	slices.Reverse(rest)
	if precedence > syntax.Precedence(syntax.AndAnd) && !slices.ContainsFunc(rest, isForced) {
		return indent(fill(rest))
	}
	return group(rest[0], indent(rest[1:]...))
}

func (p *printer) hasLeading(n syntax.Node) bool {
	found := p.comments(n)
	return len(found.leading) > 0 || len(found.inner) > 0
}

func (p *printer) match(x *syntax.MatchExpr) *doc {
	docs := docsOf(x.Arms, p.matchArm)
	isBlock := func(a *syntax.MatchArm) bool { _, ok := a.Body.(*syntax.BlockExpr); return ok }
	head := concat(text("match "), p.expr(x.X), text(" "))
	if !slices.ContainsFunc(x.Arms, isBlock) {
		return concat(head, p.braces(x, nodesOf(x.Arms), docs, ","))
	}
	for i, a := range x.Arms {
		if !isBlock(a) {
			docs[i] = concat(docs[i], text(","))
		}
	}
	return concat(head, p.body(x, nodesOf(x.Arms), docs, nil))
}

func (p *printer) matchArm(a *syntax.MatchArm) *doc {
	parts := []*doc{p.pattern(a.Pattern)}
	if a.Guard != nil {
		parts = append(parts, text(" if "), p.expr(a.Guard))
	}
	parts = append(parts, text(" =>"), p.value(a.Body))
	return p.with(a, concat(parts...))
}

func (p *printer) catch(x *syntax.CatchExpr) *doc {
	var parts []*doc
	if x.Prefix {
		parts = append(parts, text("catch"), p.value(x.X))
		if x.Err != nil {
			parts = append(parts, text(" as "), p.name(x.Err))
		}
	} else {
		parts = append(parts, p.expr(x.X), text(" catch"))
		if x.Err != nil {
			parts = append(parts, text("("), p.name(x.Err), text(")"))
		}
	}
	if x.Body != nil {
		parts = append(parts, text(" "), p.inlineBlock(x.Body))
	}
	return concat(parts...)
}
