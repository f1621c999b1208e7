package printer

import "github.com/coppice-dev/coppice/sage/syntax"

// block prints a block with each statement on its own line.
func (p *printer) block(b *syntax.Block) *doc {
	return p.with(b, p.bareBlock(b))
}

func (p *printer) bareBlock(b *syntax.Block) *doc {
	nodes := nodesOf(b.Stmts)
	docs := make([]*doc, 0, len(b.Stmts)+1)
	for i, s := range b.Stmts {
		docs = append(docs, p.stmt(s, i == len(b.Stmts)-1 && b.Tail == nil))
	}
	if b.Tail != nil {
		nodes = append(nodes, b.Tail)
		docs = append(docs, p.expr(b.Tail))
	}
	return p.body(b, nodes, docs, nil)
}

// inlineBlock prints a block that consists of one expression: on one line if the source has it on
// one line and it fits.
func (p *printer) inlineBlock(b *syntax.Block) *doc {
	if !p.isInline(b) {
		return p.block(b)
	}
	return p.with(b, group(text("{"), indent(line, p.expr(b.Tail)), line, text("}")))
}

func (p *printer) isInline(b *syntax.Block) bool {
	return b.Tail != nil && len(b.Stmts) == 0 && !p.startsLine(b.Tail) && !p.hasInner(b)
}

// value prints an expression after an equals sign or a colon: on the next line if a comment
// precedes it.
func (p *printer) value(x syntax.Expr) *doc {
	d := p.expr(x)
	if len(p.comments(x).leading) > 0 {
		return indent(hard, d)
	}
	return concat(text(" "), d)
}

func (p *printer) stmt(s syntax.Stmt, last bool) *doc {
	return p.with(s, p.bareStmt(s, last))
}

func (p *printer) bareStmt(s syntax.Stmt, last bool) *doc {
	switch s := s.(type) {
	case *syntax.LetStmt:
		word := "let "
		if s.Mut {
			word = "let mut "
		}
		parts := []*doc{text(word), p.pattern(s.Pattern)}
		if s.Type != nil {
			parts = append(parts, text(": "), p.typ(s.Type))
		}
		return concat(append(parts, text(" ="), p.value(s.Value), text(";"))...)
	case *syntax.AssignStmt:
		return concat(p.expr(s.Target), text(" "+s.Op.String()), p.value(s.Value), text(";"))
	case *syntax.ExprStmt:
		switch x := s.X.(type) {
		case *syntax.IfExpr:
			return concat(p.with(x, p.ifStmt(x)), end(last))
		case *syntax.MatchExpr, *syntax.BlockExpr:
			return concat(p.expr(x), end(last))
		}
		return concat(p.expr(s.X), text(";"))
	case *syntax.ForStmt:
		return concat(text("for "), p.pattern(s.Pattern), text(" in "), p.expr(s.X), text(" "), p.block(s.Body))
	case *syntax.WhileStmt:
		return concat(text("while "), p.expr(s.Cond), text(" "), p.block(s.Body))
	case *syntax.LoopStmt:
		return concat(text("loop "), p.block(s.Body))
	case *syntax.SpanStmt:
		return concat(text("span "), p.expr(s.Name), text(" "), p.block(s.Body))
	case *syntax.MockStmt:
		return p.mockStmt(s)
	}
	return text(s.Extent().Source())
}

// end returns a semicolon after the last statement of a block, which would otherwise be the value
// of the block.
func end(last bool) *doc {
	if last {
		return text(";")
	}
	return none
}

func (p *printer) mockStmt(s *syntax.MockStmt) *doc {
	what := text("mock divine")
	switch {
	case s.Tool != nil:
		what = concat(text("mock tool "), p.name(s.Tool), text("."), p.name(s.Func))
	case s.Infer:
		what = text("mock infer")
	}
	return concat(what, text(" ->"), p.value(s.Value), text(";"))
}

func (p *printer) ifStmt(x *syntax.IfExpr) *doc { return p.branches(x, p.block) }

// branches prints an if whose blocks are printed by block.
func (p *printer) branches(x *syntax.IfExpr, block func(*syntax.Block) *doc) *doc {
	d := concat(text("if "), p.expr(x.Cond), text(" "), block(x.Then))
	switch e := x.Else.(type) {
	case *syntax.IfExpr:
		return concat(d, text(" else "), p.with(e, p.branches(e, block)))
	case *syntax.BlockExpr:
		return concat(d, text(" else "), block(e.Block))
	}
	return d
}

// ifExpr prints an if with a value: on one line if the source has it on one line and it fits.
func (p *printer) ifExpr(x *syntax.IfExpr) *doc {
	for e := syntax.Expr(x); e != nil; {
		switch n := e.(type) {
		case *syntax.IfExpr:
			if !p.isInline(n.Then) || n.Else == nil {
				return p.ifStmt(x)
			}
			e = n.Else
		case *syntax.BlockExpr:
			if !p.isInline(n.Block) {
				return p.ifStmt(x)
			}
			e = nil
		}
	}
	return group(p.branches(x, p.arm))
}

// arm prints an inline block that breaks together with the group around it.
func (p *printer) arm(b *syntax.Block) *doc {
	return p.with(b, concat(text("{"), indent(line, p.expr(b.Tail)), line, text("}")))
}
