package check

import (
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// expr infers the type of an expression. want is the expected type, used as a hint; nil if none is
// known.
func (c *checker) expr(x syntax.Expr, want *types.Type) *types.Type {
	t := c.exprType(x, want)
	if r := t.Resolve(); len(r.Elems) > 0 && types.TooLarge(r) {
		c.fault(x, CodeTooLarge, "give a name to a record of its parts", "the type of this has more than %d parts",
			types.MaxSize)
		t = types.Of(types.Invalid)
	}
	c.record(x, t)
	return t
}

// exprs infers the types of expressions without a hint.
func (c *checker) exprs(list []syntax.Expr) []*types.Type {
	of := make([]*types.Type, len(list))
	for i, x := range list {
		of[i] = c.expr(x, nil)
	}
	return of
}

// values infers the types of the values of fields without a hint.
func (c *checker) values(inits []*syntax.FieldInit) {
	for _, f := range inits {
		c.expr(f.Value, nil)
	}
}

// record stores the type of an expression.
func (c *checker) record(x syntax.Expr, t *types.Type) {
	c.info.Types[x] = t
	if t.Kind == types.Var || len(t.Elems) > 0 {
		c.open = append(c.open, x)
	}
}

func (c *checker) exprType(x syntax.Expr, want *types.Type) *types.Type {
	switch x := x.(type) {
	case *syntax.Ident:
		return c.name(x, want)
	case *syntax.Path:
		return c.path(x, want)
	case *syntax.IntLit:
		return types.Of(types.Int)
	case *syntax.FloatLit:
		return types.Of(types.Float)
	case *syntax.BoolLit:
		return types.Of(types.Bool)
	case *syntax.StringLit:
		return types.Of(types.String)
	case *syntax.TemplateLit:
		for _, e := range x.Exprs {
			c.require(printable, c.expr(e, nil), e, 0)
		}
		return types.Of(types.String)
	case *syntax.ListLit:
		return c.list(x, want)
	case *syntax.MapLit:
		return c.mapLit(x, want)
	case *syntax.TupleLit:
		return c.tuple(x, want)
	case *syntax.RecordLit:
		return c.recordLit(x, want)
	case *syntax.ClosureExpr:
		return c.closure(x, want)
	case *syntax.ParenExpr:
		return c.expr(x.X, want)
	case *syntax.UnaryExpr:
		if x.Op == syntax.Not {
			c.expect(x.X, types.Of(types.Bool), reason{what: "is the type of the operand of `!`", help: conditionHelp})
			return types.Of(types.Bool)
		}
		t := c.expr(x.X, want)
		c.require(numeric, t, x.X, x.Op)
		return t
	case *syntax.BinaryExpr:
		return c.binary(x, want)
	case *syntax.CallExpr:
		return c.call(x, want)
	case *syntax.FieldExpr:
		return c.fieldExpr(x, want)
	case *syntax.ElemExpr:
		return c.element(x, c.expr(x.X, nil))
	case *syntax.IndexExpr:
		return c.index(x, c.expr(x.X, nil))
	case *syntax.BlockExpr:
		return c.block(x.Block, want, true)
	case *syntax.IfExpr:
		return c.ifExpr(x, want, true)
	case *syntax.MatchExpr:
		return c.match(x, want, true)
	case *syntax.SelfExpr:
		if !c.self(x) {
			return types.Of(types.Invalid)
		}
		return c.current.agent.Object.Type
	case *syntax.BreakExpr, *syntax.ContinueExpr, *syntax.ReturnExpr:
		c.jump(x)
		return types.Of(types.Never)
	case *syntax.TryExpr:
		return c.try(x, want)
	case *syntax.CatchExpr:
		return c.catch(x, want, true)
	case *syntax.FailExpr:
		c.failure(x.X)
		c.propagate(x, "fail")
		return types.Of(types.Never)
	case *syntax.RetryExpr:
		return c.retry(x, want)
	}
	return c.agentExpr(x, want)
}

// discard checks an expression whose value is not used, and reports whether it never completes.
func (c *checker) discard(x syntax.Expr) (never bool) {
	var t *types.Type
	switch e := x.(type) {
	case *syntax.BlockExpr:
		t = c.block(e.Block, nil, false)
	case *syntax.IfExpr:
		t = c.ifExpr(e, nil, false)
	case *syntax.MatchExpr:
		t = c.match(e, nil, false)
	case *syntax.CatchExpr:
		t = c.catch(e, nil, false)
	default:
		return c.expr(x, nil).Kind == types.Never
	}
	c.record(x, t)
	return t.Kind == types.Never
}
