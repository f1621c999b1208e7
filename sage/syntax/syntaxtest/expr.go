package syntaxtest

import "github.com/coppice-dev/coppice/sage/syntax"

// leads reports whether an expression cannot start a statement, because the statement would end
// before it does.
func leads(x syntax.Expr) bool {
	for {
		switch n := x.(type) {
		case *syntax.CallExpr:
			x = n.Fun
		case *syntax.FieldExpr:
			x = n.X
		case *syntax.ElemExpr:
			x = n.X
		case *syntax.IndexExpr:
			x = n.X
		case *syntax.BinaryExpr:
			x = n.X
		case *syntax.CatchExpr:
			if n.Prefix {
				return false
			}
			x = n.X
		case *syntax.Ident:
			return n.Name == "mut" || n.Name == "on" || n.Name == "not"
		case *syntax.MapLit:
			return true
		default:
			return false
		}
	}
}

// paren adds parentheses to an expression.
func paren(x syntax.Expr) syntax.Expr { return &syntax.ParenExpr{X: x} }

// atom draws an expression that is valid as any operand.
func (g gen) atom(depth int) syntax.Expr {
	x := g.expr(depth)
	switch x := x.(type) {
	case *syntax.Ident, *syntax.Path, *syntax.SelfExpr, *syntax.BoolLit, *syntax.StringLit, *syntax.TemplateLit,
		*syntax.ListLit, *syntax.TupleLit, *syntax.CallExpr, *syntax.FieldExpr, *syntax.ElemExpr, *syntax.IndexExpr,
		*syntax.ParenExpr, *syntax.YieldExpr, *syntax.SendExpr, *syntax.ReceiveExpr, *syntax.DivineExpr,
		*syntax.TraceExpr:
		return x
	case *syntax.IntLit:
		if x.Value >= 0 {
			return x
		}
	}
	return paren(x)
}

// head draws an expression that a block can follow.
func (g gen) head(depth int) syntax.Expr {
	x := g.expr(depth)
	switch x.(type) {
	case *syntax.Ident, *syntax.Path, *syntax.SelfExpr, *syntax.IntLit, *syntax.StringLit, *syntax.TemplateLit,
		*syntax.ParenExpr, *syntax.ListLit:
		return x
	}
	return paren(x)
}

func (g gen) expr(depth int) syntax.Expr {
	if depth <= 0 {
		switch g.n(0, 6) {
		case 0, 1:
			return g.literal()
		case 2:
			return &syntax.FieldExpr{X: &syntax.SelfExpr{}, Name: g.field()}
		case 3:
			return &syntax.CallExpr{Fun: g.lower()}
		case 4:
			return g.upper()
		}
		return g.lower()
	}
	depth--
	switch g.n(0, 15) {
	case 0, 1:
		return g.operation(depth)
	case 2:
		return g.chain(depth)
	case 3:
		return g.collection(depth)
	case 4:
		return g.template(depth)
	case 5:
		return g.closure(depth)
	case 6:
		return g.ifExpr(depth)
	case 7:
		return g.match(depth)
	case 8, 9:
		return g.failing(depth)
	case 10, 11:
		return g.agentExpr(depth)
	case 12:
		return g.jump(depth)
	case 13:
		return paren(g.expr(depth))
	case 14:
		args := some(g, 1, 2, func() syntax.Type { return g.typ(1) })
		return &syntax.CallExpr{Fun: &syntax.Path{Segments: []syntax.Segment{{Name: g.lower(), Args: args}}},
			Args: g.exprs(depth)}
	}
	return g.expr(0)
}

func (g gen) exprs(depth int) []syntax.Expr {
	return some(g, 0, 3, func() syntax.Expr { return g.expr(depth) })
}

func (g gen) operation(depth int) syntax.Expr {
	if g.chance(4) {
		x := g.atom(depth)
		if _, number := x.(*syntax.IntLit); number {
			x = paren(x)
		}
		return &syntax.UnaryExpr{Op: pick(g, syntax.Sub, syntax.Not), X: x}
	}
	op := pick(g, syntax.OrOr, syntax.AndAnd, syntax.Equal, syntax.Less, syntax.Concat, syntax.Add, syntax.Sub,
		syntax.Mul, syntax.Rem)
	x := g.atom(depth)
	for range g.n(1, 4) {
		x = &syntax.BinaryExpr{Op: op, X: x, Y: g.atom(depth)}
	}
	return x
}

func (g gen) chain(depth int) syntax.Expr {
	x := g.atom(depth)
	for range g.n(1, 5) {
		switch g.n(0, 4) {
		case 0:
			x = &syntax.ElemExpr{X: x, Index: g.n(0, 12)}
		case 1:
			x = &syntax.IndexExpr{X: x, Index: g.expr(depth)}
		case 2:
			x = &syntax.CallExpr{Fun: x, Args: g.exprs(depth)}
		default:
			x = &syntax.CallExpr{Fun: &syntax.FieldExpr{X: x, Name: g.field()}, Args: g.exprs(depth)}
		}
	}
	return x
}

func (g gen) collection(depth int) syntax.Expr {
	switch g.n(0, 4) {
	case 0:
		return &syntax.ListLit{Elems: some(g, 0, 12, func() syntax.Expr { return g.expr(0) })}
	case 1:
		n := pick(g, 0, 2, 3)
		return &syntax.TupleLit{Elems: some(g, n, n, func() syntax.Expr { return g.expr(depth) })}
	case 2:
		return &syntax.MapLit{Entries: some(g, 0, 3, func() *syntax.MapEntry {
			return &syntax.MapEntry{Key: g.str(), Value: g.expr(depth)}
		})}
	case 3:
		return &syntax.ListLit{Elems: g.exprs(depth)}
	}
	return &syntax.RecordLit{Name: g.path(), Inits: g.inits(depth)}
}

func (g gen) template(depth int) syntax.Expr {
	t := &syntax.TemplateLit{Exprs: some(g, 1, 3, func() syntax.Expr { return g.expr(depth) })}
	for range len(t.Exprs) + 1 {
		part := syntax.TemplatePart{}
		if g.chance(2) {
			part.Text = pick(g, " text ", "  ", `\n`, "two\n  lines", `\{`, "}", "// no comment")
		}
		t.Parts = append(t.Parts, part)
	}
	return t
}

func (g gen) closure(depth int) syntax.Expr {
	return &syntax.ClosureExpr{Params: some(g, 0, 2, func() *syntax.Param {
		p := &syntax.Param{Name: g.lower()}
		if g.chance(2) {
			p.Type = g.typ(1)
		}
		return p
	}), Body: g.body(depth)}
}

// body draws an expression after => or |x|, where braces are a block.
func (g gen) body(depth int) syntax.Expr {
	if g.chance(2) {
		return &syntax.BlockExpr{Block: g.block(depth)}
	}
	return g.statementExpr(depth)
}

func (g gen) ifExpr(depth int) syntax.Expr {
	x := &syntax.IfExpr{Cond: g.head(depth), Then: g.block(depth)}
	if g.chance(2) {
		x.Else = &syntax.BlockExpr{Block: g.block(depth)}
		if g.chance(3) {
			x.Else = &syntax.IfExpr{Cond: g.head(depth), Then: g.block(depth), Else: x.Else}
		}
	}
	return x
}

func (g gen) match(depth int) syntax.Expr {
	return &syntax.MatchExpr{X: g.head(depth), Arms: some(g, 0, 3, func() *syntax.MatchArm {
		a := &syntax.MatchArm{Pattern: g.pattern(2), Body: g.body(depth)}
		if g.chance(4) {
			a.Guard = g.expr(depth)
		}
		return a
	})}
}

func (g gen) failing(depth int) syntax.Expr {
	switch g.n(0, 4) {
	case 0:
		return &syntax.TryExpr{X: g.atom(depth)}
	case 1:
		return &syntax.FailExpr{X: g.atom(depth)}
	case 2:
		r := &syntax.RetryExpr{Count: g.expr(0), Body: g.block(depth)}
		if g.chance(2) {
			r.Delay = g.expr(0)
		}
		if g.chance(2) {
			r.On = g.expr(depth)
		}
		return r
	}
	c := &syntax.CatchExpr{Prefix: g.chance(2), X: g.head(depth), Body: g.block(depth)}
	if g.chance(2) {
		c.Err = g.lower()
	}
	return c
}

func (g gen) agentExpr(depth int) syntax.Expr {
	switch g.n(0, 8) {
	case 0:
		return &syntax.SummonExpr{Agent: g.path(), Inits: g.inits(depth)}
	case 1:
		a := &syntax.AwaitExpr{X: g.atom(depth)}
		if g.chance(2) {
			a.Timeout = g.expr(0)
		}
		return a
	case 2:
		return &syntax.SendExpr{To: g.expr(depth), Message: g.expr(depth)}
	case 3:
		return &syntax.ReceiveExpr{}
	case 4:
		y := &syntax.YieldExpr{}
		if g.chance(2) {
			y.Value = g.expr(depth)
		}
		return y
	case 5:
		return &syntax.ReplyExpr{Value: g.expr(depth)}
	case 6:
		return &syntax.TraceExpr{Value: g.expr(depth)}
	case 7:
		return &syntax.CheckpointExpr{}
	}
	d := &syntax.DivineExpr{Infer: g.chance(3), Prompt: g.expr(depth)}
	if g.chance(2) {
		d.Type = g.typ(1)
	}
	return d
}

func (g gen) jump(depth int) syntax.Expr {
	switch g.n(0, 2) {
	case 0:
		return &syntax.BreakExpr{}
	case 1:
		return &syntax.ContinueExpr{}
	}
	if g.chance(2) {
		return paren(&syntax.ReturnExpr{})
	}
	return &syntax.ReturnExpr{Value: g.expr(depth)}
}
