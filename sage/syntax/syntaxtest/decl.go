package syntaxtest

import "github.com/coppice-dev/coppice/sage/syntax"

// maxDepth bounds the nesting of expressions and blocks.
const maxDepth = 3

func (g gen) decl() syntax.Decl {
	pub := g.chance(3)
	switch g.n(0, 12) {
	case 0:
		return &syntax.ModDecl{Pub: pub, Name: g.lower()}
	case 1:
		u := &syntax.UseDecl{Pub: pub, Path: some(g, 1, 3, g.field)}
		switch g.n(0, 3) {
		case 0:
			u.Glob = true
		case 1:
			u.Alias = g.lower()
		case 2:
			u.Names = some(g, 1, 3, func() syntax.UseName {
				n := syntax.UseName{Name: g.field()}
				if g.chance(3) {
					n.Alias = g.upper()
				}
				return n
			})
		}
		return u
	case 2:
		return &syntax.RecordDecl{Pub: pub, Name: g.upper(), TypeParams: some(g, 0, 2, g.upper),
			Fields: some(g, 0, 4, func() *syntax.Field {
				return &syntax.Field{Name: g.field(), Type: g.typ(2)}
			})}
	case 3:
		return &syntax.EnumDecl{Pub: pub, Name: g.upper(), TypeParams: some(g, 0, 2, g.upper),
			Variants: some(g, 0, 4, func() *syntax.Variant {
				return &syntax.Variant{Name: g.upper(), Payload: some(g, 0, 2, func() syntax.Type { return g.typ(1) })}
			})}
	case 4:
		c := &syntax.ConstDecl{Pub: pub, Name: g.upper(), Value: g.expr(1)}
		if g.chance(2) {
			c.Type = g.typ(1)
		}
		return c
	case 5:
		f := g.signature()
		f.Pub = pub
		if f.Extern = g.chance(4); !f.Extern {
			f.Body = g.block(maxDepth)
		}
		return f
	case 6, 7:
		return g.agent(pub)
	case 8:
		return g.supervisor(pub)
	case 9:
		return &syntax.TestDecl{Attrs: some(g, 0, 1, func() *syntax.Ident { return g.id("serial") }), Name: g.str(),
			Body: g.block(maxDepth)}
	case 10:
		r := &syntax.RunDecl{Target: g.path(), Inits: g.inits(1)}
		r.Braces = len(r.Inits) > 0 || g.chance(2)
		return r
	case 11:
		return &syntax.ToolDecl{Pub: pub, Name: g.upper(), Funcs: some(g, 0, 2, g.signature)}
	}
	if g.chance(2) {
		return &syntax.EffectDecl{Pub: pub, Name: g.upper(), Effect: g.upper(), Inits: g.inits(0)}
	}
	return &syntax.ProtocolDecl{Pub: pub, Name: g.upper(), Steps: some(g, 0, 3, func() *syntax.ProtocolStep {
		return &syntax.ProtocolStep{From: g.upper(), To: g.upper(), Message: g.typ(1)}
	})}
}

func (g gen) signature() *syntax.FuncDecl {
	f := &syntax.FuncDecl{Name: g.lower(), TypeParams: some(g, 0, 2, g.upper),
		Params: some(g, 0, 3, func() *syntax.Param {
			return &syntax.Param{Name: g.lower(), Type: g.typ(2)}
		})}
	if g.chance(2) {
		f.Result = g.typ(2)
	}
	f.Fails = g.chance(3)
	return f
}

func (g gen) agent(pub bool) syntax.Decl {
	a := &syntax.AgentDecl{Pub: pub, Name: g.upper()}
	if g.chance(3) {
		a.Clauses = append(a.Clauses, &syntax.ReceivesClause{Type: g.typ(1)})
	}
	if g.chance(4) {
		a.Clauses = append(a.Clauses, &syntax.FollowsClause{Roles: some(g, 1, 2, func() syntax.Role {
			return syntax.Role{Protocol: g.upper(), Role: g.upper()}
		})})
	}
	if g.chance(4) {
		a.Clauses = append(a.Clauses, &syntax.UseClause{Uses: g.chance(2), Tools: some(g, 1, 2, g.upper)})
	}
	a.Members = some(g, 0, 4, func() syntax.AgentPart {
		switch g.n(0, 4) {
		case 0:
			return &syntax.UseClause{Uses: g.chance(2), Tools: some(g, 1, 2, g.upper)}
		case 1, 2:
			f := &syntax.Field{Persistent: g.chance(2), Name: g.field(), Type: g.typ(2)}
			if g.chance(4) {
				f.Value = g.expr(1)
			}
			return f
		}
		return g.handler()
	})
	return a
}

func (g gen) handler() *syntax.Handler {
	event := syntax.Event(g.n(int(syntax.EventStart), int(syntax.EventMessage)))
	h := &syntax.Handler{Event: event, Word: &syntax.Ident{Name: event.String()}, Body: g.block(maxDepth)}
	switch event {
	case syntax.EventResting:
		h.Word = g.id("resting", "stop")
	case syntax.EventError:
		h.Param = &syntax.Param{Name: g.lower()}
	case syntax.EventMessage:
		h.Param = &syntax.Param{Name: g.lower(), Type: g.typ(1)}
	}
	return h
}

func (g gen) supervisor(pub bool) syntax.Decl {
	s := &syntax.SupervisorDecl{Pub: pub, Name: g.upper()}
	s.Members = some(g, 0, 3, func() syntax.SupervisorPart {
		if g.chance(2) {
			return &syntax.ChildrenBlock{Children: some(g, 0, 3, g.child)}
		}
		return &syntax.FieldInit{Name: g.id("strategy", "max_restarts", "within_seconds"), Value: g.expr(0)}
	})
	return s
}

func (g gen) child() *syntax.Child {
	c := &syntax.Child{}
	if g.chance(4) {
		c.Process = &syntax.StringLit{Text: `"reviewer"`}
	} else {
		c.Target = g.path()
		if g.chance(3) {
			c.Name = g.lower()
		}
	}
	c.Parts = some(g, 0, 3, func() syntax.ChildPart {
		if g.chance(5) {
			return &syntax.EffectBinding{Effect: g.upper(), Handler: g.upper()}
		}
		return &syntax.FieldInit{Name: g.field(), Value: g.expr(2)}
	})
	return c
}

func (g gen) inits(depth int) []*syntax.FieldInit {
	return some(g, 0, 3, func() *syntax.FieldInit { return &syntax.FieldInit{Name: g.field(), Value: g.expr(depth)} })
}

func (g gen) block(depth int) *syntax.Block {
	b := &syntax.Block{Stmts: some(g, 0, 3, func() syntax.Stmt { return g.stmt(depth) })}
	if g.chance(3) {
		b.Tail = g.statementExpr(depth)
	}
	return b
}

// statementExpr draws an expression that can start a statement.
func (g gen) statementExpr(depth int) syntax.Expr {
	x := g.expr(depth)
	if leads(x) {
		return &syntax.ParenExpr{X: x}
	}
	return x
}

func (g gen) stmt(depth int) syntax.Stmt {
	switch g.n(0, 8) {
	case 0, 1:
		l := &syntax.LetStmt{Pattern: g.pattern(1), Value: g.expr(depth), Mut: g.chance(8)}
		if _, ok := l.Pattern.(*syntax.BindPat); !ok {
			l.Mut = false
		}
		if g.chance(3) {
			l.Type = g.typ(2)
		}
		return l
	case 2:
		target := pick[syntax.Expr](g, g.lower(), &syntax.FieldExpr{X: &syntax.SelfExpr{}, Name: g.field()},
			&syntax.IndexExpr{X: g.lower(), Index: g.expr(0)})
		return &syntax.AssignStmt{Target: target,
			Op: pick(g, syntax.Assign, syntax.AddAssign, syntax.ConcatAssign, syntax.RemAssign), Value: g.expr(depth)}
	case 3:
		if depth > 0 {
			return &syntax.ForStmt{Pattern: g.pattern(1), X: g.head(depth - 1), Body: g.block(depth - 1)}
		}
	case 4:
		if depth > 0 {
			return &syntax.WhileStmt{Cond: g.head(depth - 1), Body: g.block(depth - 1)}
		}
	case 5:
		if depth > 0 {
			if g.chance(2) {
				return &syntax.LoopStmt{Body: g.block(depth - 1)}
			}
			return &syntax.SpanStmt{Name: g.head(0), Body: g.block(depth - 1)}
		}
	case 6:
		m := &syntax.MockStmt{Value: g.expr(depth), Infer: g.chance(3)}
		if g.chance(2) {
			m.Infer, m.Tool, m.Func = false, g.upper(), g.field()
		}
		return m
	}
	return &syntax.ExprStmt{X: g.statementExpr(depth)}
}
