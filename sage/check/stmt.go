package check

import (
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// block checks a block and returns the type of its value: Unit if it has none, Never if it does not
// complete. want is a hint, nil if the value is not used.
func (c *checker) block(b *syntax.Block, want *types.Type, used bool) *types.Type {
	if b == nil {
		return types.Of(types.Unit)
	}
	mark := c.mark()
	never := false
	for _, s := range b.Stmts {
		if c.stmt(s) {
			never = true
		}
	}
	t := types.Of(types.Unit)
	if b.Tail != nil {
		if used {
			t = c.expr(b.Tail, want)
		} else if c.discard(b.Tail) {
			never = true
		}
	}
	c.release(mark)
	if never {
		return types.Of(types.Never)
	}
	return t
}

// stmt checks a statement, and reports whether it never completes.
func (c *checker) stmt(s syntax.Stmt) (never bool) {
	switch s := s.(type) {
	case *syntax.LetStmt:
		return c.let(s)
	case *syntax.AssignStmt:
		c.assign(s)
	case *syntax.ExprStmt:
		return c.discard(s.X)
	case *syntax.ForStmt:
		mark := c.mark()
		elem := c.elements(s.X)
		ok := c.pattern(s.Pattern, elem)
		if ok {
			c.irrefutable(s.Pattern, elem, "a for loop")
		}
		c.loop(s.Body)
		c.release(mark)
	case *syntax.WhileStmt:
		c.condition(s.Cond)
		c.loop(s.Body)
	case *syntax.LoopStmt:
		return !c.loop(s.Body)
	case *syntax.SpanStmt:
		c.expect(s.Name, types.Of(types.String), reason{what: "is the type of the name of a span"})
		return c.block(s.Body, nil, false).Kind == types.Never
	case *syntax.MockStmt:
		c.mock(s)
	}
	return false
}

// loop checks the body of a loop, and reports whether a break leaves it.
func (c *checker) loop(b *syntax.Block) (left bool) {
	body := c.current
	body.loops = append(body.loops, false)
	c.block(b, nil, false)
	left = body.loops[len(body.loops)-1]
	body.loops = body.loops[:len(body.loops)-1]
	return left
}

func (c *checker) condition(x syntax.Expr) {
	if c.malformed[x.Extent().File] {
		c.expr(x, nil) // it may be incomplete
		return
	}
	c.expect(x, types.Of(types.Bool), reason{what: "is the type of a condition", help: conditionHelp})
}

func (c *checker) let(s *syntax.LetStmt) (never bool) {
	var t *types.Type
	if s.Type != nil {
		t = c.typ(s.Type, c.current.scope)
		never = c.expect(s.Value, t, reason{what: "is the declared type"}).Kind == types.Never
	} else if t = c.expr(s.Value, nil); t.Kind == types.Never {
		t, never = types.NewVar(), true
	}
	if p, ok := s.Pattern.(*syntax.BindPat); ok {
		c.variable(Variable, p.Name, p.Name, t)
		return never
	}
	if c.pattern(s.Pattern, t) {
		c.irrefutable(s.Pattern, t, "let")
	}
	return never
}

// elements returns the element type of the operand of for.
func (c *checker) elements(x syntax.Expr) *types.Type {
	t := c.expr(x, nil).Resolve()
	help := ""
	switch t.Kind {
	case types.List:
		return t.Elems[0]
	case types.Map:
		return types.TupleOf([]*types.Type{t.Elems[0], t.Elems[1]})
	case types.Invalid, types.Never:
		return types.Of(types.Invalid)
	case types.Var:
		return c.unknown(x, "")
	case types.Int:
		help = "to count, write for i in range(0, n)"
	case types.String:
		help = "go through its characters with chars(s), through its lines with lines(s)"
	case types.Enum:
		if t.Decl == c.universe.option {
			help = "take it apart with match"
		}
	}
	return c.invalid(x, CodeIterate, help, "for goes through a List or a Map, and this is `%s`", t)
}

// assign checks target = value and the like.
func (c *checker) assign(s *syntax.AssignStmt) {
	t := c.place(s.Target)
	if s.Op == syntax.Assign {
		c.expect(s.Value, t, reason{what: "is the type of the left side"})
		return
	}
	op := compound[s.Op]
	if op == syntax.Concat {
		c.concat(s.Target, s.Value, t, c.expr(s.Value, t), s)
		return
	}
	c.expect(s.Value, t, reason{what: "is the type of the left side"})
	c.require(numeric, t, s.Target, op)
}

var compound = map[syntax.Kind]syntax.Kind{
	syntax.AddAssign: syntax.Add, syntax.SubAssign: syntax.Sub, syntax.MulAssign: syntax.Mul,
	syntax.DivAssign: syntax.Div, syntax.RemAssign: syntax.Rem, syntax.ConcatAssign: syntax.Concat,
}

// place returns the type of an assignable expression, and reports any other one.
func (c *checker) place(x syntax.Expr) *types.Type {
	t := c.placeType(x)
	c.record(x, t)
	return t
}

func (c *checker) placeType(x syntax.Expr) *types.Type {
	switch x := x.(type) {
	case *syntax.Ident:
		if o := c.local(x); o != nil {
			o.Assigned = true
			return o.Type
		}
		if o := c.global(x.Name, c.current.scope.module); o != nil {
			c.info.Uses[x] = o
			help := ""
			if o.Kind == Const {
				help = "what changes is a variable, or a belief of an agent"
			}
			return c.invalid(x, CodeAssign, help, "`%s` is %s and cannot be assigned to", truncate(x.Name),
				o.Kind.article())
		}
		if a := c.current.agent; a != nil && a.Belief(x.Name) != nil {
			return c.invalid(x, CodeName, "write self."+x.Name, "there is no variable `%s`", truncate(x.Name))
		}
		if x.Name != "" {
			c.fault(x, CodeName, c.didYouMeanOr(x.Name, c.variables(), "a variable is made with let; there are "),
				"there is no variable `%s`", truncate(x.Name))
		}
		return types.Of(types.Invalid)
	case *syntax.ParenExpr:
		return c.place(x.X)
	case *syntax.FieldExpr:
		if _, ok := x.X.(*syntax.SelfExpr); ok {
			return c.belief(x)
		}
		return c.field(x, c.place(x.X))
	case *syntax.ElemExpr:
		return c.element(x, c.place(x.X))
	case *syntax.IndexExpr:
		base := c.place(x.X)
		if base.Resolve().Kind == types.String {
			c.expr(x.Index, types.Of(types.Int))
			return c.invalid(x, CodeAssign, "make a new one, with replace or of slices",
				"a String cannot be changed in the middle")
		}
		return c.index(x, base)
	case *syntax.BadExpr:
		return types.Of(types.Invalid)
	}
	c.expr(x, nil)
	return c.invalid(x, CodeAssign, "name it first: let x = …;",
		"this is neither a variable nor a belief, so a change to it would be lost")
}

// variables returns the names of the variables in scope.
func (c *checker) variables() []string {
	if c.errors > maxDiagnostics {
		return nil
	}
	var names []string
	for _, s := range c.current.env.undo {
		if c.current.env.vars[s.name] != nil {
			names = append(names, s.name)
		}
	}
	if len(names) > 50 {
		names = names[len(names)-50:]
	}
	return names
}

func (c *checker) mock(s *syntax.MockStmt) {
	code := CodeMockDivine
	var want *types.Type
	if s.Tool != nil {
		code = CodeMockTool
		if o := c.toolFunc(s.Tool, s.Func); o != nil {
			want = o.Type.Result()
		} else {
			want = types.Of(types.Invalid)
		}
	}
	if c.current.kind != testBody {
		c.fault(s, code, "put it into test \"…\" { }", "mock stands only in tests")
	}
	if f, ok := s.Value.(*syntax.FailExpr); ok {
		c.record(f, types.Of(types.Never))
		c.failure(f.X)
		return
	}
	if want != nil {
		// A String stands for its JSON, like the answer of a model.
		if got := c.expr(s.Value, want); got.Resolve().Kind != types.String {
			c.fits(s.Value, got, want, reason{what: "is the result type of the tool"})
		}
		return
	}
	c.require(persistable, c.expr(s.Value, nil), s.Value, 0)
}
